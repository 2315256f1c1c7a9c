package masking

import "io"

// Stream masks a text that arrives in pieces. The concatenated results equal the
// result of Mask for the whole text. A stream retains the end of the text only
// while it may be the beginning of a secret, and never more than the longest
// encoding of a secret. It is not safe for concurrent use.
type Stream struct {
	m        *Masker
	state    int32  // of the automaton, after held
	held     []byte // text that is not returned yet, because it may be a part of a secret
	spans    []span // secrets found within held
	replaced bool   // the last output is a replacement that ends where held begins
	out      []byte // the result of the last call
}

// Stream returns a stream for a new text.
func (m *Masker) Stream() *Stream { return &Stream{m: m} }

// Write appends p to the text and returns the output that further text cannot
// change. The result may share memory with p and is valid until the next call.
func (s *Stream) Write(p []byte) []byte {
	a := s.m.automaton
	if a == nil || len(p) == 0 {
		return p
	}
	s.state, s.spans = scan(a, s.state, p, len(s.held), s.spans, s.m.replacements == nil)
	certain := len(s.held) + len(p) - int(a.hold[s.state])
	if len(s.held) == 0 && len(s.spans) == 0 && certain == len(p) {
		s.replaced = false
		return p
	}
	text := p
	if len(s.held) > 0 {
		s.held = append(s.held, p...)
		text = s.held
	}
	rest := s.emit(text, certain)
	s.held = append(s.held[:0], text[rest:]...)
	return s.out
}

// Flush ends the text and returns the rest of the output. The next Write begins a
// new text, so a secret that is split by a Flush is not found.
func (s *Stream) Flush() []byte {
	if s.m.automaton == nil {
		return nil
	}
	s.emit(s.held, len(s.held))
	s.state, s.held, s.spans, s.replaced = 0, s.held[:0], s.spans[:0], false
	return s.out
}

// emit sets out to the masked beginning of text and returns the length of this
// beginning. A secret that is found later does not begin before certain.
//
// A secret that begins at certain may be the prefix of a longer secret. If every
// replacement is ***, emit replaces the prefix at once, because the longer secret
// has the same replacement.
func (s *Stream) emit(text []byte, certain int) (rest int) {
	s.out = s.out[:0]
	last := certain
	if s.m.replacements != nil && certain < len(text) {
		last--
	}
	done := 0
	for ; done < len(s.spans) && s.spans[done].start <= last; done++ {
		next := s.spans[done]
		s.plain(text[rest:max(rest, next.start)])
		continues := s.replaced && (next.start < 0 || s.m.replacements == nil)
		if !continues {
			s.out = append(s.out, s.m.replacement(next)...)
			s.replaced = true
		}
		rest = next.end
	}
	if certain > rest {
		s.plain(text[rest:certain])
		rest = certain
	}
	s.spans = append(s.spans[:0], s.spans[done:]...)
	for i := range s.spans {
		s.spans[i].start -= rest
		s.spans[i].end -= rest
	}
	return rest
}

func (s *Stream) plain(text []byte) {
	if len(text) > 0 {
		s.out = append(s.out, text...)
		s.replaced = false
	}
}

// streamWriter masks its input with a stream and writes the output to w.
type streamWriter struct {
	stream *Stream
	w      io.Writer
}

func (w *streamWriter) Write(p []byte) (int, error) {
	if err := w.pass(w.stream.Write(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *streamWriter) Close() error { return w.pass(w.stream.Flush()) }

func (w *streamWriter) pass(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := w.w.Write(p)
	return err
}
