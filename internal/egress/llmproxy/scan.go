package llmproxy

import (
	"bytes"
	"encoding/json"
	"slices"
)

const (
	maxDepth  = 512
	maxLevels = 8 // of members that may matter
	maxText   = 128
	maxCount  = 1 << 40 // of tokens; what is above is no count
)

// scanState is what a scan expects next.
type scanState uint8

const (
	atValue scanState = iota
	atValueOrEnd
	atKey
	atKeyOrEnd
	atColon
	atNext // a comma, or the end of what is open
	inString
	inEscape
	inScalar
	atEnd
	broken // no JSON
)

// member is a name that matters, or none of those.
type member uint8

const (
	other member = iota
	mUsage
	mModel
	mWrapper // message of Anthropic's events, response of OpenAI's
	mInputDetails
	mOutputDetails
	mInput
	mOutput
	mCacheRead
	mCacheWrite
	mCached
	mReasoning
	mBackground
	mDelta
	mSpeech // what the model said, where its value is a text
)

func memberOf(name []byte) member {
	switch string(name) { // does not allocate
	case "usage":
		return mUsage
	case "model":
		return mModel
	case "message", "response":
		return mWrapper
	case "input_tokens", "prompt_tokens":
		return mInput
	case "output_tokens", "completion_tokens":
		return mOutput
	case "cache_read_input_tokens":
		return mCacheRead
	case "cache_creation_input_tokens":
		return mCacheWrite
	case "input_tokens_details", "prompt_tokens_details":
		return mInputDetails
	case "output_tokens_details", "completion_tokens_details":
		return mOutputDetails
	case "cached_tokens":
		return mCached
	case "cache_write_tokens":
		return mCacheWrite
	case "reasoning_tokens":
		return mReasoning
	case "delta":
		return mDelta
	case "content", "text", "thinking", "reasoning", "reasoning_content", "refusal", "arguments", "partial_json", "input":
		return mSpeech
	}
	if len(name) == len(background) && bytes.EqualFold(name, background) { // there are readers that do not mind the case
		return mBackground
	}
	return other
}

var background = []byte("background")

// found is what a scan found. Counts of one answer only grow, as providers tell
// them, so the largest is the last.
type found struct {
	model                                           string
	input, output, cacheRead, cacheWrite, reasoning int64
	said                                            int64 // bytes of the model's own texts
	background                                      bool  // the member of this name is something else than false and null
}

// scan reads one JSON text, in pieces of any size, for a model's name, its
// usage and the length of what it said. It keeps none of the text and allocates
// nothing but a new name.
type scan struct {
	found  *found
	deltas bool // only what stands below a delta is said, as events repeat it
	state  scanState
	key    bool // the string is a member's name
	keep   bool // the string or scalar matters
	speech bool // the string is said by the model
	spoilt,
	wide bool // it has escapes; it is longer than text
	depth int
	n     int                   // bytes in text
	lists [maxDepth / 64]uint64 // which open levels are lists
	path  [maxLevels]member     // of the open levels
	text  [maxText]byte
}

// reset begins another text.
func (s *scan) reset() { s.state, s.depth = atValue, 0 }

func (s *scan) feed(p []byte) {
	for i := 0; i < len(p); {
		switch s.state {
		case atEnd, broken:
			return
		case inString:
			i += s.inString(p[i:])
		case inScalar:
			i += s.inScalar(p[i:])
		case inEscape:
			s.add(p[i : i+1])
			s.state = inString
			i++
		default:
			s.step(p[i])
			i++
		}
	}
}

// plain are the bytes that a string goes on after.
var plain = func() (t [256]bool) {
	for i := range t {
		t[i] = i != '"' && i != '\\'
	}
	return t
}()

func (s *scan) inString(p []byte) int {
	n := 0
	for n < len(p) && plain[p[n]] {
		n++
	}
	s.add(p[:n])
	if s.speech {
		s.found.said += int64(n)
	}
	if n == len(p) {
		return n
	}
	if p[n] == '\\' {
		s.add(p[n : n+1])
		s.spoilt, s.state = true, inEscape
	} else {
		s.endString()
	}
	return n + 1
}

func (s *scan) inScalar(p []byte) int {
	n := 0
	for n < len(p) && p[n] > ' ' && p[n] != ',' && p[n] != '}' && p[n] != ']' {
		n++
	}
	s.add(p[:n])
	if n < len(p) {
		s.endScalar()
		s.ended()
	}
	return n
}

func (s *scan) add(p []byte) {
	if s.keep {
		n := copy(s.text[s.n:], p)
		s.n += n
		s.wide = s.wide || n < len(p)
	}
}

func (s *scan) begin(state scanState, key, keep bool) {
	s.state, s.key, s.keep, s.speech, s.spoilt, s.wide, s.n = state, key, keep, false, false, false, 0
}

// kept is the string that matters, nil where it is none that could.
func (s *scan) kept() []byte {
	if !s.keep || s.wide {
		return nil
	}
	b := s.text[:s.n]
	if !s.spoilt {
		return b
	}
	var text string
	if json.Unmarshal(slices.Concat([]byte{'"'}, b, []byte{'"'}), &text) != nil {
		return nil
	}
	return []byte(text)
}

func (s *scan) endString() {
	text := s.kept()
	if s.key {
		if s.depth <= maxLevels {
			s.path[s.depth-1] = memberOf(text)
		}
		s.state = atColon
		return
	}
	if len(text) > 0 && string(text) != s.found.model {
		s.found.model = string(text)
	}
	s.ended()
}

func (s *scan) endScalar() {
	switch text := s.text[:s.n]; {
	case !s.keep:
	case s.isBackground():
		s.found.background = s.found.background || string(text) != "false" && string(text) != "null"
	case !s.wide:
		s.number()
	}
}

// ended goes on after a value.
func (s *scan) ended() {
	s.state = atNext
	if s.depth == 0 {
		s.state = atEnd
	}
}

func (s *scan) step(c byte) {
	if c == ' ' || c == '\n' || c == '\r' || c == '\t' {
		return
	}
	switch s.state {
	case atColon:
		s.state = pick(c == ':', atValue, broken)
	case atNext:
		s.next(c)
	case atKey, atKeyOrEnd:
		switch {
		case c == '"':
			s.begin(inString, true, s.depth <= maxLevels)
		case c == '}' && s.state == atKeyOrEnd:
			s.pop()
		default:
			s.state = broken
		}
	case atValueOrEnd:
		if c == ']' {
			s.pop()
			return
		}
		s.value(c)
	default:
		s.value(c)
	}
}

func pick(yes bool, a, b scanState) scanState {
	if yes {
		return a
	}
	return b
}

func (s *scan) next(c byte) {
	list := s.isList()
	switch {
	case c == ',':
		s.state = pick(list, atValue, atKey)
	case c == ']' && list, c == '}' && !list:
		s.pop()
	default:
		s.state = broken
	}
}

func (s *scan) value(c byte) {
	if s.isBackground() && (c == '"' || c == '{' || c == '[') {
		s.found.background = true
	}
	switch c {
	case '{':
		s.push(false)
	case '[':
		s.push(true)
	case '"':
		s.begin(inString, false, s.isModel())
		s.speech = s.isSpeech()
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 't', 'f', 'n':
		s.begin(inScalar, false, s.count() != nil || s.isBackground())
		s.add([]byte{c})
	default:
		s.state = broken
	}
}

func (s *scan) push(list bool) {
	if s.depth == maxDepth {
		s.state = broken
		return
	}
	bit := uint64(1) << (s.depth % 64)
	if list {
		s.lists[s.depth/64] |= bit
	} else {
		s.lists[s.depth/64] &^= bit
	}
	if s.depth < maxLevels {
		s.path[s.depth] = other
	}
	s.depth++
	s.state = pick(list, atValueOrEnd, atKeyOrEnd)
}

func (s *scan) pop() {
	s.depth--
	s.ended()
}

func (s *scan) isList() bool {
	at := s.depth - 1
	return at >= 0 && s.lists[at/64]>>(at%64)&1 == 1
}

// members is the path to the value that begins, without what wraps answers in
// events; nil where it is too deep to matter.
func (s *scan) members() []member {
	if s.depth > maxLevels {
		return nil
	}
	path := s.path[:s.depth]
	if len(path) > 1 && path[0] == mWrapper {
		return path[1:]
	}
	return path
}

func (s *scan) isModel() bool {
	path := s.members()
	return len(path) == 1 && path[0] == mModel
}

func (s *scan) isBackground() bool { return s.depth == 1 && s.path[0] == mBackground }

func (s *scan) isSpeech() bool {
	path := s.members()
	if len(path) == 0 {
		return false
	}
	switch path[len(path)-1] {
	case mDelta:
		return true
	case mSpeech:
		return !s.deltas || slices.Contains(path, mDelta)
	}
	return false
}

// count is the count that the value at the path stands for; nil for none.
func (s *scan) count() *int64 {
	path := s.members()
	if len(path) < 2 || path[0] != mUsage {
		return nil
	}
	f := s.found
	if len(path) == 2 {
		switch path[1] {
		case mInput:
			return &f.input
		case mOutput:
			return &f.output
		case mCacheRead:
			return &f.cacheRead
		case mCacheWrite:
			return &f.cacheWrite
		}
		return nil
	}
	switch [2]member{path[1], path[2]} {
	case [2]member{mInputDetails, mCached}:
		return &f.cacheRead
	case [2]member{mInputDetails, mCacheWrite}:
		return &f.cacheWrite
	case [2]member{mOutputDetails, mReasoning}:
		return &f.reasoning
	}
	return nil
}

func (s *scan) number() {
	at := s.count()
	if at == nil || s.n == 0 {
		return
	}
	var n int64
	for _, c := range s.text[:s.n] {
		if c < '0' || c > '9' || n > maxCount {
			return
		}
		n = 10*n + int64(c-'0')
	}
	if n <= maxCount {
		*at = max(*at, n)
	}
}
