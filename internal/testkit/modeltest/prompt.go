package modeltest

import (
	"encoding/json"
	"strings"
)

// prompt is the content of a request, independent of the dialect.
type prompt struct {
	model   string
	stream  bool
	counted bool     // the client requested the usage at the end of a stream; only Chat Completions has this option
	users   []string // texts of the user's messages
	results []string // results of tools after the user's newest message
	length  int      // number of items in the conversation, a part of generated IDs
	tools   []tool
	asks    *schema // schema of the final answer if it must be JSON; nil for text
}

// user adds a message with the role user. It ignores texts that the client generated. If
// no other text remains, user only increments length.
func (p *prompt) user(texts ...string) {
	p.length++
	var own []string
	for _, text := range texts {
		if text = ownText(text); text != "" {
			own = append(own, text)
		}
	}
	if len(own) > 0 {
		p.users = append(p.users, strings.Join(own, "\n"))
		p.results = nil
	}
}

// result adds the result of a tool.
func (p *prompt) result(text string) {
	p.length++
	p.results = append(p.results, text)
}

// newest returns the newest message of the user, or "" if there is none.
func (p *prompt) newest() string {
	if len(p.users) == 0 {
		return ""
	}
	return p.users[len(p.users)-1]
}

// injected contains prefixes of texts that clients generate and send with the role
// user.
var injected = []string{
	"<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions instructions>", // Codex
	"<turn_aborted>", "<skills_instructions>", "<plugins_instructions>", "<apps_instructions>",
	"[Request interrupted by user", "Continue from where you left off.", "[structured-output-enforce]", // Claude Code
	"<session_context>", "This is the Gemini CLI.",
}

// ownText returns the part of a text that the user wrote, or "" if the client generated
// the whole text.
func ownText(text string) string {
	const begin, end = "<system-reminder>", "</system-reminder>"
	for {
		before, after, found := strings.Cut(text, begin)
		_, rest, closed := strings.Cut(after, end)
		if !found || !closed {
			break
		}
		text = before + rest
	}
	text = strings.TrimSpace(text)
	for _, prefix := range injected {
		if strings.HasPrefix(text, prefix) {
			return ""
		}
	}
	return text
}

// content is the content of a message in any dialect: a string, or a list of parts,
// some of which contain text.
type content []part

type part struct {
	Type    string  `json:"type"`
	Text    string  `json:"text"`
	Content content `json:"content"` // result of a tool, in a part of type tool_result
}

// UnmarshalJSON decodes a list of parts. It decodes a string as a list with one part of
// type text.
func (c *content) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*c = content{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(data, (*[]part)(c))
}

// texts returns the texts of the parts without empty texts.
func (c content) texts() []string {
	var all []string
	for _, p := range c {
		if p.Text != "" {
			all = append(all, p.Text)
		}
	}
	return all
}

func (c content) String() string { return strings.Join(c.texts(), "\n") }
