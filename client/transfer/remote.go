package transfer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

// Remote is one tree on a server, by calls that carry the forms of package
// wire. Its methods are safe for concurrent use and repeat by themselves what
// fails for a moment.
type Remote interface {
	// Missing gives those of the names that the server lacks.
	Missing(ctx context.Context, names []byte) ([]byte, error)
	// SendChunks stores frames.
	SendChunks(ctx context.Context, frames []byte) error
	// PushTree makes a tree the new version. ErrChunksMissing is wrapped where
	// the server lacks chunks of it.
	PushTree(ctx context.Context, tree io.ReaderAt, size int64) (v *stint.FileSetVersion, added bool, err error)
	// OpenTree reads the version's tree.
	OpenTree(ctx context.Context) (io.ReadCloser, error)
	// OpenChunks reads frames with the selected chunks of the version.
	OpenChunks(ctx context.Context, selection []byte) (io.ReadCloser, error)
}

var (
	// ErrUnsupported says that the server does not know the exchange of chunks.
	ErrUnsupported = errors.New("the server does not know the exchange of chunks")
	// ErrChunksMissing says that a tree names chunks that the server lacks.
	ErrChunksMissing = errors.New("the server lacks chunks of the tree")
)

// ClientRemote names one tree on a server, and what a push of it says.
type ClientRemote struct {
	Client *client.Client
	Trees  *client.FileSets // of Client
	ID     string
	// Version to read; empty for the current one.
	Version string
	// Push describes a new version; nil for no message.
	Push *client.PushOptions
}

var _ Remote = ClientRemote{}

// Missing implements Remote.
func (r ClientRemote) Missing(ctx context.Context, names []byte) ([]byte, error) {
	missing, err := r.Client.MissingChunks(ctx, names)
	return missing, unsupported(err, http.StatusNotFound, http.StatusMethodNotAllowed)
}

// SendChunks implements Remote.
func (r ClientRemote) SendChunks(ctx context.Context, frames []byte) error {
	return r.Client.SendChunks(ctx, frames)
}

// PushTree implements Remote.
func (r ClientRemote) PushTree(ctx context.Context, tree io.ReaderAt, size int64) (*stint.FileSetVersion, bool, error) {
	v, added, err := r.Trees.PushTree(ctx, r.ID, tree, size, r.Push)
	if client.IsCode(err, stint.CodeChunksMissing) {
		return nil, false, errors.Join(ErrChunksMissing, err)
	}
	return v, added, unsupported(err, http.StatusUnsupportedMediaType)
}

// OpenTree implements Remote.
func (r ClientRemote) OpenTree(ctx context.Context) (io.ReadCloser, error) {
	return r.Trees.OpenTree(ctx, r.ID, r.Version)
}

// OpenChunks implements Remote.
func (r ClientRemote) OpenChunks(ctx context.Context, selection []byte) (io.ReadCloser, error) {
	return r.Trees.OpenChunks(ctx, r.ID, r.Version, selection)
}

// unsupported marks an answer that a server without the exchange gives.
func unsupported(err error, statuses ...int) error {
	if e, ok := errors.AsType[*client.Error](err); ok && slices.Contains(statuses, e.Status) {
		return errors.Join(ErrUnsupported, err)
	}
	return err
}
