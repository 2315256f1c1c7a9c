package masking

// Patterns returns the encodings that a masker of values finds. Tests compare the
// masker with a simple implementation that uses them.
var Patterns = maskPatterns

// RedactPatterns returns the encodings that a redactor of secrets finds, and the
// replacement of each encoding.
var RedactPatterns = redactPatterns

// Pending returns the number of bytes that the stream holds back.
func (s *Stream) Pending() int { return len(s.held) }
