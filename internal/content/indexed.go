package content

import "github.com/stint-dev/stint/internal/content/chunkindex"

// indexed gives the chunks among segments, as the index takes them.
func indexed(segments []segment) []chunkindex.Chunk {
	chunks := make([]chunkindex.Chunk, 0, len(segments))
	for _, s := range segments {
		if s.kind == chunkSegment {
			chunks = append(chunks, chunkindex.Chunk{Hash: s.hash, Offset: s.offset, Stored: s.stored, Raw: s.raw, CRC: s.crc})
		}
	}
	return chunks
}
