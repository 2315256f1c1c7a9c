package codex

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/framework"
)

// maxRetries is the number of times that a model call is retried, and a broken
// stream. With Codex's growing pauses, the retries take about half a minute.
const maxRetries = 5

// toolTimeout is the time limit of a call of an MCP tool, in seconds.
const toolTimeout = 600

// configuration returns the content of config.toml. The model's endpoint is
// configured as a custom provider, because Codex's built-in provider tries a
// WebSocket before HTTP.
func configuration(in framework.Input) []byte {
	var b strings.Builder
	if in.Model != nil {
		b.WriteString("model_provider = \"stint\"\n")
	}
	b.WriteString("check_for_update_on_startup = false\n\n[analytics]\nenabled = false\n\n[features]\nplugins = false\n")
	if in.Model != nil {
		fmt.Fprintf(&b, "\n[model_providers.stint]\nname = \"stint\"\nbase_url = %s\nenv_key = %s\nwire_api = \"responses\"\nrequest_max_retries = %d\nstream_max_retries = %d\n",
			quoted(in.Model.URL), quoted(keyVariable), maxRetries, maxRetries)
	}
	for _, s := range in.MCP {
		fmt.Fprintf(&b, "\n[mcp_servers.%s]\ntool_timeout_sec = %d\n", quoted(s.Name), toolTimeout)
		if s.URL != "" {
			fmt.Fprintf(&b, "url = %s\nhttp_headers = %s\n", quoted(s.URL), table(s.Headers))
			continue
		}
		if len(s.Command) == 0 {
			continue
		}
		words := make([]string, len(s.Command))
		for i, w := range s.Command {
			words[i] = quoted(w)
		}
		fmt.Fprintf(&b, "command = %s\nargs = [%s]\nenv = %s\n", words[0], strings.Join(words[1:], ", "), table(s.Env))
	}
	return []byte(b.String())
}

// table returns m as a TOML inline table.
func table(m map[string]string) string {
	parts := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, quoted(key)+" = "+quoted(m[key]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// quoted returns s as a TOML basic string. It does not use strconv.Quote, which
// writes escape sequences that TOML does not have.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		switch {
		case r == '"' || r == '\\':
			b.WriteString("\\" + string(r))
		case r < ' ' || r == 0x7f:
			b.WriteString("\\u" + strings.ToUpper(strconv.FormatInt(0x10000+int64(r), 16)[1:]))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
