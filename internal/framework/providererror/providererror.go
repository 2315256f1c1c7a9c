// Package providererror explains why a model did not answer.
//
// Each agent reports the errors of its model's provider in its own words. This
// package recognises these errors and returns a message that explains to the user
// how to correct them.
package providererror

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
)

// maxQuote is the maximum length in runes of a text of the agent that a message
// quotes.
const maxQuote = 300

// Failure returns the message for a model that did not answer. in is the input of
// the agent's Prepare. keyVariable is the environment variable with the agent's
// key, which messages name if the definition has no provider. status is the
// provider's HTTP status; if it is 0, the status is searched in text. text is the
// agent's error message.
func Failure(in *framework.Input, keyVariable string, status int, text string) string {
	if sentence := known(in, keyVariable, status, text); sentence != "" {
		return sentence
	}
	return "The agent failed. It said: " + quote(in.Masked(unwrapped(text)))
}

// Known is like Failure, but if text is not a known error of a model's provider,
// ok is false.
func Known(in *framework.Input, text string) (sentence string, ok bool) {
	sentence = known(in, "", 0, text)
	return sentence, sentence != ""
}

func known(in *framework.Input, keyVariable string, status int, text string) string {
	d := in.Definition
	text = unwrapped(text)
	if status == 0 {
		status = statusOf(text)
	}
	quoted := quote(in.Masked(text))
	switch {
	case status == 401 || status == 403:
		return fmt.Sprintf("The model's provider refused the key (%d). %s The agent said: %s", status, key(d, keyVariable), quoted)
	case status == 404:
		return fmt.Sprintf("The model's provider did not find what was requested (404)%s. Check 'model' and 'provider.baseUrl' in the agent's definition. The agent said: %s", named(d), quoted)
	case status == 429:
		return "The model's provider limits the rate of requests (429). Try again later, run fewer agents at once, or raise the limit there. The agent said: " + quoted
	case status >= 500:
		return fmt.Sprintf("The model's provider failed or was overloaded (%d). Try again later. The agent said: %s", status, quoted)
	case status >= 400:
		return fmt.Sprintf("The model's provider refused the request (%d). The agent said: %s", status, quoted)
	case unreachable(text):
		return "The agent could not reach its model, or was cut off from it. Check 'provider.baseUrl' in the agent's definition, and that the server may reach it. The agent said: " + quoted
	case overloaded(text):
		return "The model's provider failed or was overloaded. Try again later. The agent said: " + quoted
	case keyless(text):
		return "The agent has no key for its model. " + key(d, keyVariable) + " The agent said: " + quoted
	}
	return ""
}

// statusWords matches an HTTP status in an agent's error message.
var statusWords = regexp.MustCompile(`(?:API Error:|status:?|status code|rejected \() ?([45][0-9][0-9])\b`)

// statusOf returns the HTTP status that the text names or implies, or 0.
func statusOf(text string) int {
	if m := statusWords.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1]) // three digits
		return n
	}
	if contains(text, "model") && contains(text, "does not exist", "may not exist", "not found") {
		return 404
	}
	return 0
}

// unwrapped returns the member error.message if text is a JSON object that has it.
// Otherwise it returns text.
func unwrapped(text string) string {
	var body struct {
		Error struct{ Message string }
	}
	if json.Unmarshal([]byte(text), &body) != nil || body.Error.Message == "" {
		return text
	}
	return body.Error.Message
}

func key(d *stint.Definition, variable string) string {
	if d.Provider == nil {
		return fmt.Sprintf("Give the agent's definition a 'provider' whose 'apiKey' names a secret, or give the run the secret %s.", variable)
	}
	if d.Provider.APIKey == nil {
		return "Set 'provider.apiKey' in the agent's definition to the secret with the key."
	}
	return fmt.Sprintf("Check the value of the secret %s.", d.Provider.APIKey.Secret)
}

func named(d *stint.Definition) string {
	if d.Model == "" {
		return ""
	}
	return ", the model '" + d.Model + "'"
}

func unreachable(text string) bool {
	return contains(text, "unable to connect", "connection refused", "connectionrefused", "connection failed", "waiting for network", "econnreset", "error sending request", "network error", "dns error")
}

func overloaded(text string) bool { return contains(text, "high demand", "overloaded", "server_error") }

func keyless(text string) bool {
	return contains(text, "not logged in", "please run /login", "missing environment variable", "invalid api key")
}

func contains(text string, words ...string) bool {
	text = strings.ToLower(text)
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// quote returns text on one line, cut to maxQuote runes, with a full stop. Secrets
// in text must already be masked, because a secret that was cut could not be found.
func quote(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if text == "" {
		return "nothing."
	}
	if utf8.RuneCountInString(text) > maxQuote {
		text = string([]rune(text)[:maxQuote]) + "…"
	}
	if !strings.ContainsAny(text[len(text)-1:], ".!?") {
		text += "."
	}
	return text
}
