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

// sender gathers chunks that the server lacks and sends them, in one
// goroutine of several.
type sender struct {
	push  *push
	codec files.Codec
	chunk []byte
	body  []byte
	held  int64 // bytes of content in body
	sent  Count

	path string // of the file that is open
	file *os.File
}

func (s *sender) send(ctx context.Context) error {
	defer s.shut()
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

// add reads a chunk again, which must not have changed since it was named.
func (s *sender) add(r ref) error {
	if err := s.open(r.path); err != nil {
		return err
	}
	if cap(s.chunk) < int(r.Raw) {
		s.chunk = make([]byte, max(r.Raw, 64<<10))
	}
	chunk := s.chunk[:r.Raw]
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
	s.body = treewire.AppendFrame(s.body, &treewire.Frame{Hash: r.Hash, Raw: r.Raw, Segment: segment})
	s.held += int64(r.Raw)
	return nil
}

// open keeps the last file open: the chunks of a large one follow each other.
func (s *sender) open(path string) error {
	if s.path == path && s.file != nil {
		return nil
	}
	s.shut()
	f, err := s.push.files.OpenFile(path)
	if err != nil {
		return errors.Join(errChanged, err)
	}
	s.path, s.file = path, f
	return nil
}

func (s *sender) shut() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}

func (s *sender) flush(ctx context.Context) error {
	if len(s.body) == 0 {
		return nil
	}
	s.body = treewire.AppendFramesEnd(s.body)
	if err := s.push.remote.SendChunks(ctx, s.body); err != nil {
		return err
	}
	s.push.wire.Add(int64(len(s.body)))
	s.push.o.Progress.Done(s.held)
	s.sent.Bytes += s.held
	s.body, s.held = s.body[:0], 0
	return nil
}
