package modeltest

import (
	"net/http"
	"strings"
)

// Values of Request.Dialect.
const (
	Anthropic = "anthropic"
	Responses = "openai-responses"
	Chat      = "openai-chat"
	Gemini    = "gemini"
)

// dialect contains the functions that implement the protocol of a model API.
type dialect struct {
	// read parses a request. Depending on the dialect, the model is in the path or in
	// the body.
	read func(path string, body []byte) (prompt, error)
	// stream returns the answer as server-sent events, and whole returns it as one
	// object.
	stream func(p prompt, a answer) []event
	whole  func(a answer) object
	// fault returns the body of an error response.
	fault func(code int, message string) object
}

type object = map[string]any

// event is a server-sent event. If data is a string, it is sent unchanged. Any other
// value is sent as JSON.
type event struct {
	name string // empty in dialects without event names
	data any
}

var dialects = map[string]dialect{
	Anthropic: {readAnthropic, streamAnthropic, wholeAnthropic, faultAnthropic},
	Responses: {readResponses, streamResponses, wholeResponses, faultOpenAI},
	Chat:      {readChat, streamChat, wholeChat, faultOpenAI},
	Gemini:    {readGemini, streamGemini, wholeGemini, faultGemini},
}

// dialectOf returns the dialect of a request, which depends only on the end of its path.
// If the request is not a model call, dialectOf returns "".
func dialectOf(path string) string {
	switch {
	case strings.HasSuffix(path, "/messages"):
		return Anthropic
	case strings.HasSuffix(path, "/responses"):
		return Responses
	case strings.HasSuffix(path, "/chat/completions"):
		return Chat
	case strings.HasSuffix(path, ":streamGenerateContent"), strings.HasSuffix(path, ":generateContent"):
		return Gemini
	}
	return ""
}

// keyOf returns the API key of a request in any dialect, or "".
func keyOf(r *http.Request) string {
	for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key"} {
		if key := r.Header.Get(name); key != "" {
			return key
		}
	}
	if key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return key
	}
	return r.URL.Query().Get("key")
}
