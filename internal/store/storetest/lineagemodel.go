package storetest

import (
	"errors"
	"fmt"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// lineageModel is a reference for the history of one artifact. It finds ancestors by
// following the parents one by one.
type lineageModel struct {
	w        *world
	t        *rapid.T
	set      string
	versions []string          // IDs in order, also of removed versions
	parent   map[string]string // empty for a version without a parent
	digests  map[string]string // digest of each version
	pinned   map[string]bool   // referenced by a checkpoint
	removed  map[string]bool
	sessions []string
	newest   map[string]string // newest version of each session
	head     string
	contents int
}

// randomLineage compares random histories with lineageModel.
func randomLineage(w *world) {
	names := 0
	rapid.Check(w.real, func(t *rapid.T) {
		w := w.with(t)
		names++
		w.home = w.tenant(fmt.Sprint("lineage-", names))
		m := &lineageModel{
			w: w, t: t, set: w.home.fileSet(stint.Artifacts, "out").ID, parent: map[string]string{}, digests: map[string]string{},
			pinned: map[string]bool{}, removed: map[string]bool{}, newest: map[string]string{},
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0, 1:
				m.push()
			case 2, 3, 4:
				m.fork()
			case 5:
				m.continueSession()
			case 6:
				m.promote()
			case 7:
				m.remove()
			}
			m.check()
		}
	})
}

func (m *lineageModel) content() string {
	m.contents++
	return fmt.Sprint("content ", m.contents)
}

// includes reports whether version is id or one of the ancestors of id.
func (m *lineageModel) includes(id, version string) bool {
	for ; id != ""; id = m.parent[id] {
		if id == version {
			return true
		}
	}
	return false
}

func (m *lineageModel) add(id, parent, digest string) {
	m.versions = append(m.versions, id)
	m.parent[id], m.digests[id] = parent, digest
}

// version draws a version that exists or was removed; empty if there is none.
func (m *lineageModel) version() string {
	if len(m.versions) == 0 {
		return ""
	}
	return rapid.SampledFrom(m.versions).Draw(m.t, "version")
}

func (m *lineageModel) push() {
	c := m.w.home.commit(m.set, m.content())
	v := m.w.home.committed(c)
	m.add(v.ID, m.head, c.Digest)
	m.head = v.ID
}

// fork runs a run in a new session that starts from any version.
func (m *lineageModel) fork() {
	base := ""
	if rapid.IntRange(0, 9).Draw(m.t, "base") > 0 {
		base = m.version()
	}
	c := m.w.home.start()
	m.finish(c, base, rapid.Bool().Draw(m.t, "checkpoint"))
}

func (m *lineageModel) continueSession() {
	if len(m.sessions) == 0 {
		return
	}
	session := rapid.SampledFrom(m.sessions).Draw(m.t, "session")
	own := m.newest[session]
	want := own
	if m.includes(m.head, own) {
		want = m.head
	}
	c := m.w.home.start(inSession(session), inherits("out"))
	m.w.diff("start", &store.StartVersion{ID: want, Digest: m.digests[want]}, c.Start)
	m.w.diff("has a note", want != m.head, m.w.note(c) != "")
	m.finish(c, want, true)
}

// finish ends a run that started from the version base and compares the result.
func (m *lineageModel) finish(c store.Claim, base string, checkpoint bool) {
	w := m.w
	status := rapid.SampledFrom([]stint.Status{stint.Completed, stint.Completed, stint.Failed}).Draw(m.t, "status")
	changed := base == "" || rapid.IntRange(0, 3).Draw(m.t, "changed") > 0
	out := w.outcome(status, w.home.withVersion("out", m.content()), from(base))
	if !changed {
		out.Version.Commit.Digest = m.digests[base]
	}
	if checkpoint {
		w.home.checkpoint(c.Run)(&out)
	}
	r := w.finish(c.Position, out)
	id := *r.ArtifactVersion
	var moved string
	switch {
	case !changed && !m.removed[base]:
		w.diff("unchanged version", base, id)
	default:
		m.add(id, base, out.Version.Commit.Digest)
		if status != stint.Completed || !changed {
			break
		}
		if m.head != "" && !m.includes(id, m.head) {
			moved = m.head
		}
		m.head = id
	}
	got := ""
	if r.HeadMovedFrom != nil {
		got = r.HeadMovedFrom.VersionID
	}
	w.diff("previous head of another line", moved, got)
	if checkpoint {
		m.pinned[id] = true
		if m.newest[r.SessionID] == "" {
			m.sessions = append(m.sessions, r.SessionID)
		}
		m.newest[r.SessionID] = id
	}
}

func (m *lineageModel) promote() {
	id := m.version()
	if id == "" {
		return
	}
	_, err := m.w.s.PromoteVersion(m.w.ctx, m.w.home.org, m.set, id, nil, m.w.now())
	if m.removed[id] {
		m.w.wantErr(err, store.ErrNotFound, "PromoteVersion")
		return
	}
	m.w.must(err, "PromoteVersion")
	m.head = id
}

func (m *lineageModel) remove() {
	id := m.version()
	if id == "" {
		return
	}
	err := m.w.s.DeleteVersion(m.w.ctx, m.w.home.org, m.set, id)
	switch {
	case m.removed[id]:
		m.w.wantErr(err, store.ErrNotFound, "DeleteVersion again")
	case id == m.head || m.pinned[id]:
		m.w.diff("in use", true, errors.Is(err, store.ErrInUse))
	default:
		m.w.must(err, "DeleteVersion")
		m.removed[id] = true
	}
}

// check compares the head and the parents of all versions.
func (m *lineageModel) check() {
	m.w.Helper()
	head := ""
	if id := m.w.home.artifact("out").CurrentVersionID; id != nil {
		head = *id
	}
	m.w.diff("head", m.head, head)
	list, err := m.w.s.FileSetVersions(m.w.ctx, m.w.home.org, m.set, store.Range{Limit: 1000})
	m.w.must(err, "FileSetVersions")
	m.w.diff("versions", len(m.versions)-len(m.removed), len(list))
	for _, v := range list {
		parent := ""
		if v.ParentVersionID != nil {
			parent = *v.ParentVersionID
		}
		m.w.diff("parent of "+v.ID, m.parent[v.ID], parent)
	}
}
