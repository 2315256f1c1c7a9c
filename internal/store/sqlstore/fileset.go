package sqlstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

const (
	fileSetColumns = `select t.id, t.org_id, t.kind, t.name, v.id, coalesce(v.size, 0), coalesce(v.file_count, 0), t.created_at, t.updated_at`
	fileSetHeads   = ` left join tree_versions v on v.tree_id = t.id and v.number = t.head`
	selectFileSets = fileSetColumns + ` from trees t` + fileSetHeads
)

func scanFileSet(r Row) (t store.FileSet, err error) {
	return t, r.Scan(&t.ID, &t.OrgID, &t.Kind, &t.Name, &t.CurrentVersionID, &t.Size, &t.FileCount, timeAt{&t.CreatedAt}, timeAt{&t.UpdatedAt})
}

// CreateFileSet stores a file set without versions.
func (s *Store) CreateFileSet(ctx context.Context, t store.FileSet) error {
	return s.writeOne(ctx, "creating a file set", store.ErrExists, insertFileSet, fileSetValues(t)...)
}

const insertFileSet = `insert into trees (id, org_id, kind, name, newest, created_at, updated_at)
	values ($1, $2, $3, $4, 0, $5, $6) on conflict do nothing`

func fileSetValues(t store.FileSet) []any {
	return []any{t.ID, t.OrgID, string(t.Kind), t.Name, micros(t.CreatedAt), micros(t.UpdatedAt)}
}

// FileSet returns a file set by its ID.
func (s *Store) FileSet(ctx context.Context, org string, kind stint.FileSetKind, id string) (store.FileSet, error) {
	return get(ctx, s, "reading a file set", scanFileSet, selectFileSets+`
		where t.id = $1 and t.org_id = $2 and t.kind = $3 and t.deleted_at is null`, id, org, string(kind))
}

// FileSetByName returns a file set by its name.
func (s *Store) FileSetByName(ctx context.Context, org string, kind stint.FileSetKind, name string) (store.FileSet, error) {
	return get(ctx, s, "finding a file set", scanFileSet, selectFileSets+`
		where t.org_id = $1 and t.kind = $2 and t.name = $3 and t.deleted_at is null`, org, string(kind), name)
}

// FileSets returns file sets, newest first.
func (s *Store) FileSets(ctx context.Context, org string, kind stint.FileSetKind, r store.Range) ([]store.FileSet, error) {
	page := newQuery(`select * from trees`).of(org, r).and("kind = ?", string(kind)).and("deleted_at is null").page(r)
	return list(ctx, s, "listing file sets", scanFileSet, `with t as (`+page.text.String()+`) `+fileSetColumns+` from t`+fileSetHeads+
		` order by t.created_at desc, t.id desc`, page.args...)
}

// DeleteFileSet hides a file set and its versions.
func (s *Store) DeleteFileSet(ctx context.Context, org string, kind stint.FileSetKind, id string, at stint.Time) error {
	return s.writeOne(ctx, "deleting a file set", store.ErrNotFound, `update trees set deleted_at = $4
		where id = $1 and org_id = $2 and kind = $3 and deleted_at is null`, id, org, string(kind), micros(at))
}

const (
	versionColumns = `select v.tree_id, v.number, v.id, v.digest, v.size, v.file_count, v.message, v.created_by, v.created_at, t.kind, v.parent_id, v.session_id,
		(select count(*) from kept k where k.org_id = t.org_id and k.version_id = v.id) > 0`
	selectVersions = versionColumns + ` from tree_versions v join trees t on t.id = v.tree_id`
)

func scanVersion(r Row) (v store.FileSetVersion, err error) {
	var kind stint.FileSetKind
	var session *string
	err = r.Scan(&v.FileSetID, &v.Number, &v.ID, &v.Digest, &v.Size, &v.FileCount, freeText{&v.Message}, freeText{&v.CreatedBy}, timeAt{&v.CreatedAt}, &kind, &v.ParentVersionID, &session, &v.Kept)
	v.Origin = originOf(v.CreatedBy, session)
	if kind == stint.Artifacts {
		v.ArtifactID = v.FileSetID
	} else {
		v.VolumeID = v.FileSetID
	}
	return v, err
}

// originOf returns the origin of a version. Session is not nil for a version that a run
// made.
func originOf(createdBy string, session *string) stint.VersionOrigin {
	run, ok := strings.CutPrefix(createdBy, "run:")
	if !ok {
		return stint.VersionOrigin{Type: stint.OriginPush}
	}
	return stint.VersionOrigin{Type: stint.OriginRun, RunID: &run, SessionID: session}
}

// FileSetVersion returns a version. Versions of a deleted file set are found only
// by ID and only if a checkpoint references them.
func (s *Store) FileSetVersion(ctx context.Context, org, set, id string, number int64) (store.FileSetVersion, error) {
	q := newQuery(selectVersions).and("v.tree_id = ?", set).and("t.org_id = ?", org)
	switch {
	case id != "":
		q.and("v.id = ?", id)
		q.and("(t.deleted_at is null or exists (select 1 from pins p where p.org_id = t.org_id and p.version_id = v.id))")
	case number != 0:
		q.and("v.number = ?", number).and("t.deleted_at is null")
	default:
		q.and("v.number = t.head").and("t.deleted_at is null")
	}
	return get(ctx, s, "reading a version", scanVersion, q.text.String(), q.args...)
}

// FileSetVersions returns versions, newest first. Versions of the same
// millisecond are sorted by number, because their IDs do not sort by number.
func (s *Store) FileSetVersions(ctx context.Context, org, set string, r store.Range) ([]store.FileSetVersion, error) {
	page := newQuery(`select * from tree_versions`).and("tree_id = ?", set).pageBy("number", versionNumber(r.After.ID), r)
	return list(ctx, s, "listing versions", scanVersion, `with v as (`+page.text.String()+`) `+versionColumns+
		` from v join trees t on t.id = v.tree_id and t.org_id = $`+strconv.Itoa(len(page.args)+1)+` and t.deleted_at is null
		order by v.created_at desc, v.number desc`, append(page.args, org)...)
}

// versionNumber returns N of the ID vN_….
func versionNumber(id string) int64 {
	number, _, _ := strings.Cut(strings.TrimPrefix(id, "v"), "_")
	n, _ := strconv.ParseInt(number, 10, 64)
	return n
}

// CommitVersion appends a version to a file set.
func (s *Store) CommitVersion(ctx context.Context, c store.Commit) (store.FileSetVersion, bool, error) {
	type answer struct {
		head  store.FileSetVersion
		added bool
	}
	a, err := change(ctx, s, "committing a version", func(ctx context.Context, q Querier) (a answer, err error) {
		t, err := s.lockFileSet(ctx, q, `l.id = $1 and l.org_id = $2`, c.FileSetID, c.OrgID)
		if err != nil {
			return a, err
		}
		if err := s.checkEpoch(ctx, q, c.OrgID, c.Epoch); err != nil {
			return a, err
		}
		a.head, a.added, err = commit(ctx, q, t, c)
		return a, err
	})
	return a.head, a.added, err
}

// lockedFileSet contains values of a file set's row that the transaction has locked.
// head is nil if there is no head; newest is the greatest version number.
type lockedFileSet struct {
	id     string
	kind   stint.FileSetKind
	head   *int64
	newest int64
}

func (s *Store) lockFileSet(ctx context.Context, q Querier, which string, args ...any) (lockedFileSet, error) {
	return one(ctx, q, func(r Row) (t lockedFileSet, err error) { return t, r.Scan(&t.id, &t.kind, &t.head, &t.newest) },
		`select l.id, l.kind, l.head, l.newest from trees l where l.deleted_at is null and `+which+s.d.Lock, args...)
}

// commit appends a version to the locked file set as a child of the head, unless the head
// has the same digest. It returns the new version and true, or the head and false.
func commit(ctx context.Context, q Querier, t lockedFileSet, c store.Commit) (store.FileSetVersion, bool, error) {
	head, err := headOf(ctx, q, t)
	if err == nil {
		err = checkHead(head, c.IfHead)
	}
	if err != nil {
		return store.FileSetVersion{}, false, err
	}
	if head != nil && head.digest == c.Digest {
		v, err := readVersion(ctx, q, t, *head)
		return v, false, err
	}
	n, err := addVersion(ctx, q, t, c, head)
	if err == nil && !c.KeepHead {
		err = moveHead(ctx, q, t, n, c.CreatedAt)
	}
	if err != nil {
		return store.FileSetVersion{}, false, err
	}
	v, err := readVersion(ctx, q, t, n)
	return v, true, err
}
