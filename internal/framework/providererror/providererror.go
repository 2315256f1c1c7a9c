// Package explain answers: what does a user do about a model that did not
// answer?
//
// Agents pass on what their provider said, each in its own words. Here that
// becomes a sentence that names what to change.
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

// maxQuote is the most of an agent's words that a sentence repeats, in runes.
const maxQuote = 300

// Failure is the sentence for a model that did not answer. status is the
// HTTP status of its provider; 0 is unknown and looked for in text, the agent's
// words. in is what the agent was prepared from, keyVariable the variable that it
// takes its key from where there is no provider.
func Failure(in *framework.Input, keyVariable string, status int, text string) string {
	if sentence := known(in, keyVariable, status, text); sentence != "" {
		return sentence
	}
	return "The agent failed. It said: " + quote(in.Masked(unwrapped(text)))
}

// Known is Failure for an agent with a provider whose other failures are told in
// another way: ok is false where its words tell nothing of the model.
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
		return fmt.Sprintf("The model's provider does not know what it was asked for (404)%s. Check 'model' and 'provider.baseUrl' in the agent's definition. The agent said: %s", named(d), quoted)
	case status == 429:
		return "The model's provider limits how much is asked of it (429). Try again later, run fewer agents at once, or raise the limit there. The agent said: " + quoted
	case status >= 500:
		return fmt.Sprintf("The model's provider had a fault or was overloaded (%d). Try again later. The agent said: %s", status, quoted)
	case status >= 400:
		return fmt.Sprintf("The model's provider refused the request (%d). The agent said: %s", status, quoted)
	case unreachable(text):
		return "The agent could not reach its model, or was cut off from it. Check 'provider.baseUrl' in the agent's definition, and that the server may reach it. The agent said: " + quoted
	case overloaded(text):
		return "The model's provider had a fault or was overloaded. Try again later. The agent said: " + quoted
	case keyless(text):
		return "The agent has no key for its model. " + key(d, keyVariable) + " The agent said: " + quoted
	}
	return ""
}

// statusWords find an HTTP status in an agent's words.
var statusWords = regexp.MustCompile(`(?:API Error:|status:?|status code|rejected \() ?([45][0-9][0-9])\b`)

// statusOf is the HTTP status that an agent's words name or mean; 0 for none.
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

// unwrapped is the message in an error that was passed on as JSON.
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
		return "Name the secret that holds the key by 'provider.apiKey' in the agent's definition."
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

// quote repeats an agent's words, in which secrets are masked: of one that is cut
// in two, neither half would be known.
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
