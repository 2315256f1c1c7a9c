package treewire

import "io"

// MaxHashes is the maximum number of hashes in one request.
const MaxHashes = 8192

// AppendHashes appends hashes to b.
func AppendHashes(b []byte, hashes []Hash) []byte {
	for i := range hashes {
		b = append(b, hashes[i][:]...)
	}
	return b
}

// ReadHashes reads hashes until the end of r. If r has more than MaxHashes hashes or an
// incomplete hash, the error wraps ErrMalformed.
func ReadHashes(r io.Reader) ([]Hash, error) {
	const size = len(Hash{})
	b, err := io.ReadAll(io.LimitReader(r, MaxHashes*int64(size)+1))
	switch {
	case err != nil:
		return nil, err
	case len(b)%size != 0 && len(b) <= MaxHashes*size:
		return nil, malformed("hashes have %d bytes each; %d bytes are not a multiple", size, len(b))
	case len(b) > MaxHashes*size:
		return nil, malformed("there are more than %d hashes in one request", MaxHashes)
	}
	hashes := make([]Hash, len(b)/size)
	for i := range hashes {
		hashes[i] = Hash(b[i*size:])
	}
	return hashes, nil
}
