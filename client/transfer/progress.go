package transfer

// Progress receives the progress of a transfer. Its methods must be safe for
// concurrent use.
type Progress interface {
	// Expect is called with the total bytes of files, before Done and again if the
	// transfer restarts.
	Expect(bytes int64)
	// Done is called with the number of further bytes that are in place.
	Done(bytes int64)
}

type noProgress struct{}

func (noProgress) Expect(int64) {}
func (noProgress) Done(int64)   {}

// Count is a number of files and of their bytes.
type Count struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}
