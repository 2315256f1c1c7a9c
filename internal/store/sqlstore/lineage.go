package sqlstore

import (
	"context"
	"errors"
	"strconv"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// The versions of a file set form a forest. Each version belongs to a line: it continues
// the line of its parent if it is the parent's first child, and otherwise begins a line
// whose number is the version's own. Numbers increase from parent to child. Therefore, of
// two versions of one line, the lower is an ancestor of the higher, and for versions of
// two lines only the forks between the lines have to be read.

// node is the place of a version in the history of its file set.
type node struct {
	id     string
	number int64
	line   int64
	digest string
	stored bool // the version was not removed
}

func scanNode(r Row) (n node, err error) {
	return n, r.Scan(&n.id, &n.number, &n.line, &n.digest, &n.stored)
}

// nodeOf returns the place of a version that exists or was removed. If the file set never
// had the version, the error is store.ErrNotFound.
func nodeOf(ctx context.Context, q Querier, set, id string) (node, error) {
	return one(ctx, q, scanNode, `select id, number, line, digest, 1 = 1 from tree_versions where tree_id = $1 and number = $2 and id = $3
		union all select id, number, line, digest, 1 = 0 from pruned_versions where tree_id = $1 and number = $2 and id = $3`,
		set, versionNumber(id), id)
}

// headOf returns the head of a locked file set, or nil if it has no head.
func headOf(ctx context.Context, q Querier, t lockedFileSet) (*node, error) {
	if t.head == nil {
		return nil, nil
	}
	n, err := one(ctx, q, scanNode, `select id, number, line, digest, 1 = 1 from tree_versions where tree_id = $1 and number = $2`, t.id, *t.head)
	return &n, err
}

// includes reports whether the history of n contains the version a, or a is n. Both must
// belong to the file set. If they are on different lines, it follows the forks from n
// towards the root, one row for each fork, and stops at the line of a.
func (n node) includes(ctx context.Context, q Querier, set string, a node) (bool, error) {
	switch {
	case a.number > n.number:
		return false, nil
	case a.line == n.line:
		return true, nil
	}
	fork, err := one(ctx, q, value[int64], `with recursive walk (fork, up) as (
			select fork, up from tree_lines where tree_id = $1 and line = $2
			union all
			select l.fork, l.up from walk w join tree_lines l on l.tree_id = $1 and l.line = w.up where w.up > $3)
		select fork from walk where up = $3`, set, n.line, a.line)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return a.number <= fork, err
}

// addVersion stores the next version of the locked file set as a child of parent, which
// is nil for a version without a parent. It does not move the head.
func addVersion(ctx context.Context, q Querier, t lockedFileSet, c store.Commit, parent *node) (node, error) {
	n := node{number: t.newest + 1, digest: c.Digest, stored: true}
	n.id, n.line = stint.FormatVersionID(n.number, c.Suffix), n.number
	var parentID any
	var fork, up int64
	if parent != nil {
		parentID, fork, up = parent.id, parent.number, parent.line
		continued, err := exec(ctx, q, `update tree_lines set tip = $4 where tree_id = $1 and line = $2 and tip = $3`, t.id, parent.line, parent.number, n.number)
		if err != nil {
			return n, err
		}
		if continued > 0 {
			n.line = parent.line
		}
	}
	steps := []Step{
		stepOne(errNumberTaken, `insert into tree_versions
				(tree_id, number, id, digest, size, file_count, message, created_by, created_at, parent_id, line, session_id)
			values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) on conflict do nothing`,
			t.id, n.number, n.id, c.Digest, c.Size, c.FileCount, c.Message, c.CreatedBy, micros(c.CreatedAt), parentID, n.line, emptyOrNil(c.SessionID)),
		step(`update trees set newest = $2 where id = $1`, t.id, n.number),
	}
	if n.line == n.number {
		steps = append(steps, step(`insert into tree_lines (tree_id, line, tip, fork, up) values ($1, $2, $2, $3, $4)`, t.id, n.line, fork, up))
	}
	return n, run(ctx, q, steps...)
}

var errNumberTaken = errors.New("the version number is already in use")

// moveHead makes a version the head of the locked file set.
func moveHead(ctx context.Context, q Querier, t lockedFileSet, n node, at stint.Time) error {
	_, err := exec(ctx, q, `update trees set head = $2, updated_at = $3 where id = $1`, t.id, n.number, micros(at))
	return err
}

// readVersion returns the version of a node that is stored.
func readVersion(ctx context.Context, q Querier, t lockedFileSet, n node) (store.FileSetVersion, error) {
	return one(ctx, q, scanVersion, selectVersions+` where v.tree_id = $1 and v.number = $2`, t.id, n.number)
}

// PromoteVersion makes a version the head.
func (s *Store) PromoteVersion(ctx context.Context, org, set, id string, ifHead *string, at stint.Time) (store.FileSetVersion, error) {
	return change(ctx, s, "promoting a version", func(ctx context.Context, q Querier) (v store.FileSetVersion, err error) {
		t, err := s.lockFileSet(ctx, q, `l.id = $1 and l.org_id = $2`, set, org)
		if err != nil {
			return v, err
		}
		head, err := headOf(ctx, q, t)
		if err != nil {
			return v, err
		}
		if err := checkHead(head, ifHead); err != nil {
			return v, err
		}
		n, err := nodeOf(ctx, q, t.id, id)
		if err == nil && !n.stored {
			err = store.ErrNotFound
		}
		if err != nil {
			return v, err
		}
		if head == nil || head.number != n.number {
			if err := moveHead(ctx, q, t, n, at); err != nil {
				return v, err
			}
		}
		return readVersion(ctx, q, t, n)
	})
}

// checkHead returns a *store.ConflictError if want is not nil and is not the ID of head.
func checkHead(head *node, want *string) error {
	id := ""
	if head != nil {
		id = head.id
	}
	if want != nil && *want != id {
		return &store.ConflictError{Head: id}
	}
	return nil
}

// commitRun stores the workspace of a run as a version of the locked artifact, as a child
// of the version that the run started from. If the content is equal to that version, it
// stores nothing and returns that version. If the run completed, the new version becomes
// the head; moved is then the previous head unless it is an ancestor of the new one.
func commitRun(ctx context.Context, q Querier, t lockedFileSet, c store.Commit, completed bool) (id string, moved *stint.HeadMove, err error) {
	var parent *node
	if c.Parent != "" {
		n, err := nodeOf(ctx, q, t.id, c.Parent)
		switch {
		case err == nil:
			parent = &n
		case !errors.Is(err, store.ErrNotFound): // the version can be of a deleted artifact with the same name
			return "", nil, err
		}
	}
	unchanged := parent != nil && parent.digest == c.Digest
	if unchanged && parent.stored {
		return parent.id, nil, nil
	}
	head, err := headOf(ctx, q, t)
	if err != nil {
		return "", nil, err
	}
	n, err := addVersion(ctx, q, t, c, parent)
	if err != nil || !completed || unchanged {
		return n.id, nil, err
	}
	if head != nil {
		if moved, err = leftBehind(ctx, q, t, *head, parent); err != nil {
			return "", nil, err
		}
	}
	return n.id, moved, moveHead(ctx, q, t, n, c.CreatedAt)
}

// leftBehind returns the head with its session, or nil if the history of parent contains
// the head.
func leftBehind(ctx context.Context, q Querier, t lockedFileSet, head node, parent *node) (*stint.HeadMove, error) {
	if parent != nil {
		if included, err := parent.includes(ctx, q, t.id, head); err != nil || included {
			return nil, err
		}
	}
	session, err := one(ctx, q, value[*string], `select session_id from tree_versions where tree_id = $1 and number = $2`, t.id, head.number)
	return &stint.HeadMove{VersionID: head.id, SessionID: session}, err
}

// selectStart selects the newest version of the artifact $3 that the session $2 made, with
// the digest of its workspace, and the head of the artifact in the organisation $1. The
// version belongs to another file set if the artifact was deleted since; its line is then
// null.
const selectStart = `with own as (
		select artifact_version, checkpoint_id from runs
			where session_id = $2 and artifact_name = $3 and artifact_version is not null order by created_at desc, id desc limit 1)
	select t.id, p.artifact_version, c.workspace_digest, b.number, b.line, h.id, h.number, h.line, h.digest
	from (select 1 as one) o
		left join own p on 1 = 1
		left join checkpoints c on c.id = p.checkpoint_id
		left join trees t on t.org_id = $1 and t.kind = 'artifact' and t.name = $3 and t.deleted_at is null
		left join tree_versions b on b.tree_id = t.id and b.id = p.artifact_version
		left join tree_versions h on h.tree_id = t.id and h.number = t.head`

// startRow is a row of selectStart.
type startRow struct {
	set, own, ownDigest  *string
	ownNumber, ownLine   *int64
	head                 *string
	headNumber, headLine *int64
	headDigest           *string
}

func scanStart(r Row) (s startRow, err error) {
	return s, r.Scan(&s.set, &s.own, &s.ownDigest, &s.ownNumber, &s.ownLine, &s.head, &s.headNumber, &s.headLine, &s.headDigest)
}

// sessionStart returns the version that a run starts from which inherits an artifact from
// its session, and the note of the running event; see store.Claim.
func sessionStart(ctx context.Context, q Querier, org string, c candidate) (*store.StartVersion, string, error) {
	s, err := one(ctx, q, scanStart, selectStart, org, c.session, c.inherits)
	if err != nil {
		return nil, "", err
	}
	if s.own == nil || s.ownDigest == nil {
		if s.head == nil {
			return &store.StartVersion{}, "", nil
		}
		return &store.StartVersion{ID: *s.head, Digest: *s.headDigest}, "", nil
	}
	own := &store.StartVersion{ID: *s.own, Digest: *s.ownDigest}
	name := c.inherits + "@v" + strconv.FormatInt(versionNumber(*s.own), 10)
	if s.head == nil {
		return own, "The run starts from " + name + ", the newest version of this session. The artifact has no current version.", nil
	}
	if s.ownLine != nil {
		head := node{number: *s.headNumber, line: *s.headLine}
		included, err := head.includes(ctx, q, *s.set, node{number: *s.ownNumber, line: *s.ownLine})
		if err != nil {
			return nil, "", err
		}
		if included {
			return &store.StartVersion{ID: *s.head, Digest: *s.headDigest}, "", nil
		}
	}
	return own, "The run starts from " + name + ", the newest version of this session. The current version v" +
		strconv.FormatInt(*s.headNumber, 10) + " does not contain its changes.", nil
}
