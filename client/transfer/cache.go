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
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// settleTime exceeds the resolution of file times: two changes of a file within
// settleTime can leave equal times. Therefore the chunks of a file are not cached until
// settleTime after its last change.
const settleTime = 2 * time.Second

// fileStat contains the properties that change if the content of a file changes. If the
// fileStat of a file equals the one in the cache, the file is unchanged.
type fileStat struct {
	size     int64
	modified int64 // nanoseconds since the Unix epoch
	changed  int64 // change time of the inode in the same unit; 0 if unknown
	inode    uint64
}

func statOf(info fs.FileInfo) fileStat {
	s := fileStat{size: info.Size(), modified: info.ModTime().UnixNano()}
	s.system(info)
	return s
}

// settled reports whether every change of the file after now will also change its
// fileStat.
func (s *fileStat) settled(now time.Time) bool {
	return now.UnixNano()-max(s.modified, s.changed) >= int64(settleTime)
}

// cachedFile is the record of one file in the cache.
type cachedFile struct {
	path   string
	stat   fileStat
	sum    treewire.Hash // hash of the whole content; set only if there are several chunks
	chunks []format.Chunk
}

const (
	cacheMagic = "stint-s1"
	// maxRecord is the maximum size of a record, in bytes. Larger records are not
	// written.
	maxRecord = 16 << 20
)

// cacheReader reads the records of a cache, which are sorted by path. It ignores a
// damaged record and all records after it.
type cacheReader struct {
	f        *os.File
	r        *bufio.Reader
	onServer bool        // the server had all chunks in the cache when it was written
	next     *cachedFile // next record; nil at the end
}

// openCache opens the cache at path. A missing cache is empty.
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
		c.onServer = head[len(cacheMagic)] == 1
		c.advance()
	}
	return c
}

func (c *cacheReader) close() {
	if c.f != nil {
		c.f.Close()
	}
}

// find returns the entry for path, or nil. Paths must ascend from call to call.
func (c *cacheReader) find(path string) *cachedFile {
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

// hasFolder reports whether the cache contains a file in the folder, or a file with the
// path of the folder. Paths must ascend from call to call, also those of find.
func (c *cacheReader) hasFolder(folder string) bool {
	return c.find(folder) != nil || c.next != nil && strings.HasPrefix(c.next.path, folder+"/")
}

// findUnchanged returns the entry for path, or nil if there is none or if the file has
// changed since it was cached. Paths must ascend from call to call.
func (c *cacheReader) findUnchanged(path string, info fs.FileInfo) *cachedFile {
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

// decodeCached decodes a record with a valid checksum.
func decodeCached(b []byte) *cachedFile {
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		b = b[max(n, 0):]
		return v
	}
	c := &cachedFile{}
	c.stat = fileStat{size: int64(number()), modified: int64(number()), changed: int64(number()), inode: number()}
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
		c.chunks = append(c.chunks, format.Chunk{Size: uint32(number()), Hash: treewire.Hash(take(uint64(len(c.sum))))})
	}
	return c
}

// cacheWriter writes a new cache to a temporary file in the folder of the old cache.
type cacheWriter struct {
	path string
	f    *os.File
	w    *bufio.Writer
	b    []byte
}

// createCache creates a new cache. Its commit replaces the cache at path. If path is
// empty, the cacheWriter writes nothing.
func createCache(path string) (*cacheWriter, error) {
	if path == "" {
		return &cacheWriter{}, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("create the cache's folder: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return nil, fmt.Errorf("create a cache: %w", err)
	}
	c := &cacheWriter{path: path, f: f, w: bufio.NewWriterSize(f, 64<<10)}
	_, _ = c.w.WriteString(cacheMagic + "\x00") // Flush returns its error
	return c, nil
}

// add adds a file. Paths must ascend from call to call.
func (c *cacheWriter) add(k *cachedFile) {
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
		b = binary.AppendUvarint(b, uint64(k.chunks[i].Size))
		b = append(b, k.chunks[i].Hash[:]...)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-8))
	binary.LittleEndian.PutUint32(b[4:], crc32.ChecksumIEEE(b[8:]))
	if len(b) <= maxRecord {
		_, _ = c.w.Write(b) // Flush returns its error
	}
	c.b = b
}

// commit replaces the old cache by the new one. onServer states whether the server has
// all chunks in the new cache.
func (c *cacheWriter) commit(onServer bool) error {
	if c.w == nil {
		return nil
	}
	err := c.w.Flush()
	if onServer && err == nil {
		_, err = c.f.WriteAt([]byte{1}, int64(len(cacheMagic)))
	}
	if err = errors.Join(err, c.f.Close()); err == nil {
		err = os.Rename(c.f.Name(), c.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the cache: %w", err), os.Remove(c.f.Name()))
	}
	c.w = nil
	return nil
}

// discard removes the temporary file, unless the cache was committed.
func (c *cacheWriter) discard() {
	if c.w == nil {
		return
	}
	c.f.Close()
	_ = os.Remove(c.f.Name())
	c.w = nil
}
