package transfer

// Progress receives the progress of a transfer. Its methods must be safe for
// concurrent use.
type Progress interface {
	// Expect is called before Done with the total number of bytes of all calls of
	// Done. If the transfer restarts, Expect is called again and counting restarts
	// at 0.
	Expect(bytes int64)
	// Done is called with the number of bytes that were completed since the
	// previous call, including bytes that need not be transferred.
	Done(bytes int64)
}

type noProgress struct{}

func (noProgress) Expect(int64) {}
func (noProgress) Done(int64)   {}

// Count is a number of files and their total size in bytes.
type Count struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}
