package artifacts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/store"
)

const (
	suffixSize = 20   // random characters of a version's identifier, 100 bits
	maxMessage = 4096 // bytes of a version's message
)

// Push is the content of a new version.
type Push struct {
	Format  files.Format // of the archive; WireTree for a tree of stored chunks
	Archive io.Reader
	Message string
	IfMatch string // required current version; empty for any
}

// WireTree is the format of a pushed tree in the encoding of package treewire. The
// chunks of the tree must have been stored before.
const WireTree files.Format = "tree"

// Push stores an archive as the next version, which becomes the current one. If the
// current version has the same content, Push returns the current version and added is
// false. If p.IfMatch is set and is not the current version, Push returns an error with
// the code version_conflict.
func (s *Service) Push(ctx context.Context, c auth.Caller, kind stint.FileSetKind, id string, p Push) (v stint.FileSetVersion, added bool, err error) {
	if len(p.Message) > maxMessage || !utf8.ValidString(p.Message) {
		return stint.FileSetVersion{}, false, stint.InvalidParam("message", "'message' must be text of %d bytes at most.", maxMessage)
	}
	t, err := s.fileSet(ctx, c.OrgID, kind, id)
	if err != nil {
		return stint.FileSetVersion{}, false, err
	}
	parent, err := s.parent(ctx, c.OrgID, t, p.IfMatch)
	if err != nil {
		return stint.FileSetVersion{}, false, err
	}
	ref, err := s.receive(ctx, c.OrgID, parent, &p)
	if err != nil {
		return stint.FileSetVersion{}, false, err
	}
	commit := store.Commit{
		OrgID: c.OrgID, FileSetID: t.ID, Digest: ref.Digest, Size: ref.Size, FileCount: ref.Files,
		Message: p.Message, CreatedBy: c.Name(), CreatedAt: stint.TimeOf(s.c.Now()),
	}
	if p.IfMatch != "" {
		commit.IfHead = &p.IfMatch
	}
	return s.commit(ctx, t, ref, commit)
}

func (s *Service) receive(ctx context.Context, org, parent string, p *Push) (files.Ref, error) {
	if p.Format == WireTree {
		return s.c.Library.CommitEntries(ctx, org, parent, p.Archive)
	}
	return s.c.Library.CommitArchive(ctx, org, parent, p.Format, p.Archive)
}

// commit adds a stored snapshot as the next version.
func (s *Service) commit(ctx context.Context, t stint.FileSet, ref files.Ref, c store.Commit) (stint.FileSetVersion, bool, error) {
	c.Suffix = strings.ToLower(rand.Text()[:suffixSize])
	var head store.FileSetVersion
	var added bool
	err := s.c.Library.Publish(ctx, c.OrgID, []files.Ref{ref}, func(epoch int64) (err error) {
		c.Epoch = epoch
		head, added, err = s.c.Store.CommitVersion(ctx, c)
		return err
	})
	if errors.Is(err, files.ErrNotPublished) {
		return stint.FileSetVersion{}, false, staleError(err)
	}
	if conflict, ok := errors.AsType[*store.ConflictError](err); ok {
		return stint.FileSetVersion{}, false, versionConflict(t, conflict.Head)
	}
	return head.FileSetVersion, added, store.PublicError(err, string(t.Kind), t.ID)
}

// staleError returns an error with a message for the user if garbage collection is
// deleting files of the version, and otherwise err.
func staleError(err error) error {
	if !errors.Is(err, files.ErrStale) {
		return err
	}
	return &stint.Error{
		Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Cause: err,
		Message: "Garbage collection is deleting files that this version needs. Push again.",
	}
}

// parent returns the digest of the current version, or "" if it does not exist. The new
// version reuses the unchanged content of the current one. parent checks ifMatch before
// the archive is read; commit checks it again.
func (s *Service) parent(ctx context.Context, org string, t stint.FileSet, ifMatch string) (string, error) {
	head := ""
	if t.CurrentVersionID != nil {
		head = *t.CurrentVersionID
	}
	if ifMatch != "" && ifMatch != head {
		return "", versionConflict(t, head)
	}
	if head == "" {
		return "", nil
	}
	v, err := s.c.Store.FileSetVersion(ctx, org, t.ID, head, 0)
	if err != nil {
		return "", fmt.Errorf("read head of %s %s: %w", t.Kind, t.ID, err)
	}
	return v.Digest, nil
}

func versionConflict(t stint.FileSet, head string) error {
	is := "it has no version yet"
	if head != "" {
		is = "its current version is '" + head + "'"
	}
	return &stint.Error{
		Kind: stint.KindConflict, Code: stint.CodeVersionConflict, Param: "If-Match",
		Message: fmt.Sprintf("The %s '%s' has changed: %s. Read it again, then repeat the request.", t.Kind, t.Name, is),
	}
}
