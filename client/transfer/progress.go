package transfer

// Progress is told how a transfer goes on. Its methods are safe for concurrent
// use.
type Progress interface {
	// Expect says how many bytes of files have to be looked after. It comes
	// first, and again when all begins anew.
	Expect(bytes int64)
	// Done says that further bytes are where they belong.
	Done(bytes int64)
}

type noProgress struct{}

func (noProgress) Expect(int64) {}
func (noProgress) Done(int64)   {}

// Count is a number of files and of the bytes in them.
type Count struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}
