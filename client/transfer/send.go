package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// sender sends the chunks that the server lacks in requests of about bodyTarget bytes.
// Several senders run concurrently.
type sender struct {
	push  *push
	codec files.Codec
	chunk []byte // buffer for the content of one chunk
	body  []byte // the next request
	bytes int64  // uncompressed size of the chunks in body

	path string // of the open file
	file *os.File
}

// send sends all chunks from the channel push.wanted.
func (s *sender) send(ctx context.Context) error {
	defer s.closeFile()
	for r := range s.push.wanted {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := s.add(r); err != nil {
			return fmt.Errorf("%s: %w", r.path, err)
		}
		if len(s.body) >= bodyTarget {
			if err := s.flush(ctx); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.flush(ctx)
}

// add reads a chunk again, checks that it has not changed since the scan, and adds it
// to the request.
func (s *sender) add(r chunkRef) error {
	if err := s.open(r.path); err != nil {
		return err
	}
	if cap(s.chunk) < int(r.Size) {
		s.chunk = make([]byte, max(r.Size, 64<<10))
	}
	chunk := s.chunk[:r.Size]
	if _, err := s.file.ReadAt(chunk, r.offset); errors.Is(err, io.EOF) {
		return errChanged
	} else if err != nil {
		return err
	}
	if sha256.Sum256(chunk) != r.Hash {
		return errChanged
	}
	segment, err := s.codec.Segment(chunk)
	if err != nil {
		return err
	}
	if len(s.body) == 0 {
		s.body = treewire.AppendFramesHead(s.body)
	}
	s.body = treewire.AppendFrame(s.body, &treewire.Frame{Hash: r.Hash, Raw: r.Size, Segment: segment})
	s.bytes += int64(r.Size)
	return nil
}

// open opens a file unless it is already open. The file stays open, because the next
// chunk is usually from the same file.
func (s *sender) open(path string) error {
	if s.path == path && s.file != nil {
		return nil
	}
	s.closeFile()
	f, err := s.push.files.OpenFile(path)
	if err != nil {
		return errors.Join(errChanged, err)
	}
	s.path, s.file = path, f
	return nil
}

func (s *sender) closeFile() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}

// flush sends the collected chunks, if there are any.
func (s *sender) flush(ctx context.Context) error {
	if len(s.body) == 0 {
		return nil
	}
	s.body = treewire.AppendFramesEnd(s.body)
	if err := s.push.remote.SendChunks(ctx, s.body); err != nil {
		return err
	}
	s.push.wire.Add(int64(len(s.body)))
	s.push.o.Progress.Done(s.bytes)
	s.push.sent.Add(s.bytes)
	s.body, s.bytes = s.body[:0], 0
	return nil
}
