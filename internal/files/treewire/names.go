package treewire

import "io"

// MaxNames is how many names one question may hold.
const MaxNames = 8192

// AppendNames adds names.
func AppendNames(b []byte, names []Hash) []byte {
	for i := range names {
		b = append(b, names[i][:]...)
	}
	return b
}

// ReadNames reads at most MaxNames names to the end of r.
func ReadNames(r io.Reader) ([]Hash, error) {
	const size = len(Hash{})
	b, err := io.ReadAll(io.LimitReader(r, MaxNames*int64(size)+1))
	switch {
	case err != nil:
		return nil, err
	case len(b)%size != 0 && len(b) <= MaxNames*size:
		return nil, malformed("names of chunks have %d bytes each; %d bytes are no whole number of them", size, len(b))
	case len(b) > MaxNames*size:
		return nil, malformed("more than %d names of chunks come at once", MaxNames)
	}
	names := make([]Hash, len(b)/size)
	for i := range names {
		names[i] = Hash(b[i*size:])
	}
	return names, nil
}
