package modeltest

import (
	"net/http"
	"strings"
)

// The dialects, as Request.Dialect has them.
const (
	Anthropic = "anthropic"
	Responses = "openai-responses"
	Chat      = "openai-chat"
	Gemini    = "gemini"
)

// dialect is how one provider is spoken to.
type dialect struct {
	// read takes the model from path or body, and the conversation.
	read func(path string, body []byte) (prompt, error)
	// stream is the answer as server-sent events, whole as one object.
	stream func(p prompt, a answer) []event
	whole  func(a answer) object
	// fault is the body of a refusal.
	fault func(code int, message string) object
}

type object = map[string]any

// event is one server-sent event. Its data is JSON, or text as it is.
type event struct {
	name string // none in the dialects that do not name them
	data any
}

var dialects = map[string]dialect{
	Anthropic: {readAnthropic, streamAnthropic, wholeAnthropic, faultAnthropic},
	Responses: {readResponses, streamResponses, wholeResponses, faultOpenAI},
	Chat:      {readChat, streamChat, wholeChat, faultOpenAI},
	Gemini:    {readGemini, streamGemini, wholeGemini, faultGemini},
}

// dialectOf tells the dialect of a model call by its path, below any base.
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

// keyOf is the key that a request carries, wherever its dialect puts it.
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
