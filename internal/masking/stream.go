package masking

// Stream masks a text that comes in pieces; put together, what it gives is
// what Mask gives for the whole. It holds back the end of the text only while
// that is the beginning of a secret, and never more than the longest spelling
// of one. It is not safe for concurrent use.
type Stream struct {
	automaton *automaton
	state     int32
	held      []byte // not given yet, since it may turn out to be a secret
	spans     []span // to be masked, within held
	joined    bool   // what was given last is a mask that ends where held begins
	out       []byte // what the last call gave
}

// Stream begins a text.
func (m *Masker) Stream() *Stream { return &Stream{automaton: m.automaton} }

// Write takes the next piece and gives what is certain by now. The result may
// share memory with p and is good until the next call.
func (s *Stream) Write(p []byte) []byte {
	if s.automaton == nil || len(p) == 0 {
		return p
	}
	s.state, s.spans = scan(s.automaton, s.state, p, len(s.held), s.spans)
	certain := len(s.held) + len(p) - int(s.automaton.hold[s.state])
	if len(s.held) == 0 && len(s.spans) == 0 && certain == len(p) {
		s.joined = false
		return p
	}
	text := p
	if len(s.held) > 0 {
		s.held = append(s.held, p...)
		text = s.held
	}
	rest := s.give(text, certain)
	s.held = append(s.held[:0], text[rest:]...)
	return s.out
}

// Flush gives what is held back and begins a new text. It is for the end of
// the stream; in its midst, say to show a prompt that happens to look like
// the beginning of a secret, it lets a secret pass that is cut there.
func (s *Stream) Flush() []byte {
	if s.automaton == nil {
		return nil
	}
	s.give(s.held, len(s.held))
	s.state, s.held, s.spans, s.joined = 0, s.held[:0], s.spans[:0], false
	return s.out
}

// Pending is the number of bytes held back.
func (s *Stream) Pending() int { return len(s.held) }

// give puts into out what can be said of text when no secret that is yet to
// be found begins before certain, and returns where the unsaid begins. A
// secret that is found is masked even if it reaches beyond: whatever is found
// later there only makes the same mask longer.
func (s *Stream) give(text []byte, certain int) (rest int) {
	s.out = s.out[:0]
	done := 0
	for ; done < len(s.spans) && s.spans[done].start <= certain; done++ {
		next := s.spans[done]
		s.plain(text[rest:next.start])
		if !s.joined {
			s.out = append(s.out, Mask...)
			s.joined = true
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
		s.joined = false
	}
}
