package transfer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// racy is how long after its last change a file's times may still be those of
// a further change: within it, what was read is not remembered.
const racy = 2 * time.Second

// stat is what a file's content is remembered under.
type stat struct {
	size     int64
	modified int64 // nanoseconds since the Unix epoch
	changed  int64 // the same of the inode; 0 where it is not known
	inode    uint64
}

func statOf(info fs.FileInfo) stat {
	s := stat{size: info.Size(), modified: info.ModTime().UnixNano()}
	s.system(info)
	return s
}

// settled reports whether a later change is sure to show in the stat.
func (s *stat) settled(now time.Time) bool {
	return now.UnixNano()-max(s.modified, s.changed) >= int64(racy)
}

// cached is what the cache knows of a file.
type cached struct {
	path   string
	stat   stat
	sum    treewire.Hash // of the whole content, where there are several chunks
	chunks []treewire.Chunk
}

const (
	cacheMagic = "stint-s1"
	// maxRecord bounds a record of the cache, in bytes.
	maxRecord = 16 << 20
)

// cacheReader reads a cache in path order. A damaged one ends early: it is no
// more than a memory.
type cacheReader struct {
	f     *os.File
	r     *bufio.Reader
	there bool    // the server had all chunks that it names
	next  *cached // nil at the end
}

// openCache opens the cache at path; there may be none.
func openCache(path string) *cacheReader {
	c := &cacheReader{}
	if path == "" {
		return c
	}
	f, err := os.Open(path)
	if err != nil {
		return c
	}
	c.f, c.r = f, bufio.NewReaderSize(f, 64<<10)
	head := make([]byte, len(cacheMagic)+1)
	if _, err := io.ReadFull(c.r, head); err == nil && string(head[:len(cacheMagic)]) == cacheMagic {
		c.there = head[len(cacheMagic)] == 1
		c.advance()
	}
	return c
}

func (c *cacheReader) close() {
	if c.f != nil {
		c.f.Close()
	}
}

// find gives what is known of path, nil for nothing. Paths ascend from call to
// call.
func (c *cacheReader) find(path string) *cached {
	for c.next != nil {
		switch order := files.ComparePaths(c.next.path, path); {
		case order == 0:
			return c.next
		case order > 0:
			return nil
		}
		c.advance()
	}
	return nil
}

// below reports whether something in the folder is known.
func (c *cacheReader) below(folder string) bool {
	return c.find(folder) != nil || c.next != nil && strings.HasPrefix(c.next.path, folder+"/")
}

// of gives what is known of the file at path as long as it is unchanged.
func (c *cacheReader) of(path string, info fs.FileInfo) *cached {
	if known := c.find(path); known != nil && known.stat == statOf(info) {
		return known
	}
	return nil
}

func (c *cacheReader) advance() {
	c.next = nil
	var head [8]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxRecord {
		return
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.r, b); err != nil || crc32.ChecksumIEEE(b) != binary.LittleEndian.Uint32(head[4:]) {
		return
	}
	c.next = decodeCached(b)
}

// decodeCached reads a record whose checksum is right.
func decodeCached(b []byte) *cached {
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		b = b[max(n, 0):]
		return v
	}
	c := &cached{}
	c.stat = stat{size: int64(number()), modified: int64(number()), changed: int64(number()), inode: number()}
	take := func(n uint64) []byte {
		taken := make([]byte, min(n, maxRecord))
		b = b[copy(taken, b):]
		return taken
	}
	c.path = string(take(number()))
	n := number()
	if n > 1 {
		c.sum = treewire.Hash(take(uint64(len(c.sum))))
	}
	for i := uint64(0); i < n && len(b) > 0; i++ {
		c.chunks = append(c.chunks, treewire.Chunk{Raw: uint32(number()), Hash: treewire.Hash(take(uint64(len(c.sum))))})
	}
	return c
}

// cacheWriter writes a new cache beside the old one.
type cacheWriter struct {
	path string
	f    *os.File
	w    *bufio.Writer
	b    []byte
}

// createCache begins a cache that takes the place of the one at path when it
// is kept. An empty path is for no cache.
func createCache(path string) (*cacheWriter, error) {
	if path == "" {
		return &cacheWriter{}, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the cache's folder: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return nil, fmt.Errorf("make a cache: %w", err)
	}
	c := &cacheWriter{path: path, f: f, w: bufio.NewWriterSize(f, 64<<10)}
	_, _ = c.w.WriteString(cacheMagic + "\x00") // its error stays until the flush
	return c, nil
}

// add remembers a file. Paths ascend from call to call.
func (c *cacheWriter) add(k *cached) {
	if c.w == nil {
		return
	}
	b := append(c.b[:0], make([]byte, 8)...)
	for _, v := range []uint64{uint64(k.stat.size), uint64(k.stat.modified), uint64(k.stat.changed), k.stat.inode, uint64(len(k.path))} {
		b = binary.AppendUvarint(b, v)
	}
	b = append(b, k.path...)
	b = binary.AppendUvarint(b, uint64(len(k.chunks)))
	if len(k.chunks) > 1 {
		b = append(b, k.sum[:]...)
	}
	for i := range k.chunks {
		b = binary.AppendUvarint(b, uint64(k.chunks[i].Raw))
		b = append(b, k.chunks[i].Hash[:]...)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-8))
	binary.LittleEndian.PutUint32(b[4:], crc32.ChecksumIEEE(b[8:]))
	if len(b) <= maxRecord {
		_, _ = c.w.Write(b) // its error stays until the flush
	}
	c.b = b
}

// keep puts the cache in its place. there says that the server has all chunks
// that it names.
func (c *cacheWriter) keep(there bool) error {
	if c.w == nil {
		return nil
	}
	err := c.w.Flush()
	if there && err == nil {
		_, err = c.f.WriteAt([]byte{1}, int64(len(cacheMagic)))
	}
	if err = errors.Join(err, c.f.Close()); err == nil {
		err = os.Rename(c.f.Name(), c.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep the cache: %w", err), os.Remove(c.f.Name()))
	}
	c.w = nil
	return nil
}

// drop gives up a cache that was not kept.
func (c *cacheWriter) drop() {
	if c.w == nil {
		return
	}
	c.f.Close()
	_ = os.Remove(c.f.Name())
	c.w = nil
}
