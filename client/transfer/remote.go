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

// Remote is an artifact or volume on a server. Its methods exchange the encodings of
// package treewire. They are safe for concurrent use and retry temporary failures.
type Remote interface {
	// Missing returns the hashes of the chunks that the server lacks, which are a
	// subset of hashes.
	Missing(ctx context.Context, hashes []byte) ([]byte, error)
	// SendChunks sends chunks, encoded as frames, to the server, which stores them.
	SendChunks(ctx context.Context, frames []byte) error
	// PushTree stores a tree as a new version. It returns an error that wraps
	// ErrChunksMissing if the server lacks chunks of the tree.
	PushTree(ctx context.Context, tree io.ReaderAt, size int64) (v *stint.FileSetVersion, added bool, err error)
	// OpenTree returns the tree of a version.
	OpenTree(ctx context.Context) (io.ReadCloser, error)
	// OpenChunks returns the selected chunks of a version, encoded as frames.
	OpenChunks(ctx context.Context, selection []byte) (io.ReadCloser, error)
}

var (
	// ErrUnsupported reports that the server does not support the exchange of
	// chunks.
	ErrUnsupported = errors.New("the server does not support the exchange of chunks")
	// ErrChunksMissing reports that the server lacks chunks of a tree.
	ErrChunksMissing = errors.New("the server lacks chunks of the tree")
)

// ClientRemote implements Remote with a client.
type ClientRemote struct {
	Client *client.Client
	Trees  *client.FileSets // Client.Artifacts or Client.Volumes
	ID     string           // of the artifact or volume
	// Version is the version to read; empty means the current one.
	Version string
	// Push describes a new version, for example with a message. It may be nil.
	Push *client.PushOptions
}

var _ Remote = ClientRemote{}

// Missing implements Remote.
func (r ClientRemote) Missing(ctx context.Context, hashes []byte) ([]byte, error) {
	missing, err := r.Client.MissingChunks(ctx, hashes)
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

// unsupported joins ErrUnsupported to err if err is a response with one of the
// statuses.
func unsupported(err error, statuses ...int) error {
	if e, ok := errors.AsType[*client.Error](err); ok && slices.Contains(statuses, e.Status) {
		return errors.Join(ErrUnsupported, err)
	}
	return err
}
