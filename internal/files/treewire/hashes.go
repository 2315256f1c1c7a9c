package treewire

import "io"

// MaxHashes is how many names one question may hold.
const MaxHashes = 8192

// AppendHashes adds names.
func AppendHashes(b []byte, names []Hash) []byte {
	for i := range names {
		b = append(b, names[i][:]...)
	}
	return b
}

// ReadHashes reads at most MaxHashes names to the end of r.
func ReadHashes(r io.Reader) ([]Hash, error) {
	const size = len(Hash{})
	b, err := io.ReadAll(io.LimitReader(r, MaxHashes*int64(size)+1))
	switch {
	case err != nil:
		return nil, err
	case len(b)%size != 0 && len(b) <= MaxHashes*size:
		return nil, malformed("names of chunks have %d bytes each; %d bytes are no whole number of them", size, len(b))
	case len(b) > MaxHashes*size:
		return nil, malformed("more than %d names of chunks come at once", MaxHashes)
	}
	names := make([]Hash, len(b)/size)
	for i := range names {
		names[i] = Hash(b[i*size:])
	}
	return names, nil
}
