package masking

// Patterns returns the encodings that a masker of values finds, for tests that
// compare it with a simple implementation.
var Patterns = maskPatterns

// RedactPatterns returns the encodings that a redactor finds and their
// replacements.
var RedactPatterns = redactPatterns

// Pending returns the number of retained bytes.
func (s *Stream) Pending() int { return len(s.held) }
