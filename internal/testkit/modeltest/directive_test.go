package modeltest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/testkit/modeltest"
)

// plain returns the line in the result of Steps for a step without directives. Each of
// fields, such as http=503*2, replaces a field in the line.
func plain(fields ...string) string {
	line := `run="" tool="" args= think="" sleep=0s cut=false http=0*0`
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		before, after, _ := strings.Cut(line, name+"=")
		_, after, _ = strings.Cut(after+" ", " ")
		line = strings.TrimSuffix(before+name+"="+value+" "+after, " ")
	}
	return line + "\n"
}

func TestParse(t *testing.T) {
	t.Parallel()
	const rest = "slow=1 usage={100 20 0 0 0}"
	for _, c := range []struct{ name, prompt, want string }{
		{"nothing", "hello", plain() + rest},
		{"prose around", "please [[run: ls -l]], thanks", plain(`run="ls -l"`) + plain() + rest},
		{"several", "[[run: a]][[tool: b]]", plain(`run="a"`) + plain(`tool="b"`, "args={}") + plain() + rest},
		{"what happens to which", "[[http: 503*2]][[run: a]][[think: hm]][[sleep:0.5]]", plain(`run="a"`, "http=503*2") + plain(`think="hm"`, "sleep=500ms") + rest},
		{"conditions of bash", "[[run: [[ -f x ]] && cat x]]", plain(`run="[[ -f x ]] && cat x"`) + plain() + rest},
		{"ends with a bracket", "[[run: echo $a[0]]]", plain(`run="echo $a[0]"`) + plain() + rest},
		{"nested JSON", `[[tool: b {"a":[[1]]}]] x`, plain(`tool="b"`, `args={"a":[[1]]}`) + plain() + rest},
		{"brackets in JSON", `[[tool: b {"a":"]]"}]]`, plain(`tool="b"`, `args={"a":"]]"}`) + plain() + rest},
		{"says JSON", `[[say: [1,[2]] ]]`, plain() + `say="[1,[2]]" ` + rest},
		{"says nothing", `[[say:]]`, plain() + `say="" ` + rest},
		{"several lines", "[[say: a\nb]]", plain() + `say="a\nb" ` + rest},
		{"cut", "[[cut]] [[slow: 3]]", plain("cut=true") + "slow=3 usage={100 20 0 0 0}"},
		{"usage", "[[usage: in=9, cacheRead=4,out=2,reasoning=1,cacheWrite=5]]", plain() + "slow=1 usage={9 2 4 5 1}"},
		{"no directive", "[[image.png]] [[link]] [[run", plain() + rest},
		{"not closed", "[[run: ls", plain() + rest},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := modeltest.Steps(c.prompt)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefusesInvalidDirectives(t *testing.T) {
	t.Parallel()
	for _, prompt := range []string{
		"[[run:]]", "[[tool:]]", "[[tool: b [1]]]", "[[tool: b nonsense]]", "[[tool: b null]]", "[[sleep: soon]]", "[[sleep: -1]]", "[[sleep: NaN]]",
		"[[http: 200]]", "[[http: 500*0]]", "[[slow: 0]]", "[[usage: tea=1]]", "[[usage: in=x]]", "[[usage: in=1,cacheRead=2]]", "[[usage: out=1,reasoning=2]]",
	} {
		if got, err := modeltest.Steps(prompt); err == nil {
			t.Errorf("%s was parsed as %s", prompt, got)
		}
	}
}

func TestOwnText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"hello":                                          "hello",
		" <environment_context>\n<cwd>/x</cwd>":          "",
		"# AGENTS.md instructions for /work\n":           "",
		"<system-reminder>a</system-reminder>":           "",
		"b<system-reminder>a</system-reminder> c":        "b c",
		"an open <system-reminder>":                      "an open <system-reminder>",
		"[Request interrupted by user for tool use]":     "",
		"<user_instructions>be kind</user_instructions>": "",
	} {
		if got := modeltest.OwnText(text); got != want {
			t.Errorf("ownText(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestFill(t *testing.T) {
	t.Parallel()
	for form, want := range map[string]string{
		`{}`:         `{}`,
		`"nonsense"`: `{}`,
		`{"required":["a","b","c"],"properties":{"a":{"type":"STRING"},"b":{"type":["null","integer"],"minimum":7},"c":{"type":"boolean"},"d":{}}}`: `{"a":"text","b":7,"c":false}`,
		`{"required":["a","b"],"properties":{"a":{"enum":["x","y"]},"b":{"type":"array","minItems":2,"items":{"const":3}}}}`:                        `{"a":"x","b":[3,3]}`,
		`{"required":["a","b"],"properties":{"a":{"$ref":"#/$defs/t"},"b":{"anyOf":[{"type":"object"}]}},"$defs":{"t":{"default":"d"}}}`:            `{"a":"d","b":{}}`,
		`{"required":["a","b"],"properties":{"a":{"$ref":"#/$defs/gone"}}}`:                                                                         `{"a":null,"b":null}`,
		`{"required":["a"],"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/a"}}}`:                                             `{"a":null}`,
	} {
		if got := modeltest.Fill(form); got != want {
			t.Errorf("fill(%s) = %s, want %s", form, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("please [[run: ls]]")
	f.Add(`[[tool: b {"a":[[1]]}]] [[say: [1]]] [[usage: in=1]]`)
	f.Add("[[http: 500*2]][[sleep: 1]][[cut]][[think:]]]]]")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = modeltest.Steps(text)
		if strings.ContainsAny(text, "[]{}") || strings.TrimSpace(text) == "" {
			return
		}
		// A text without brackets is a valid command.
		want, err := modeltest.Steps("[[run: " + text + "]]")
		if err != nil {
			t.Fatal(err)
		}
		got, err := modeltest.Steps("before [[run:" + strings.TrimSpace(text) + "]] behind")
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
		if said, err := modeltest.Steps("[[say: " + text + "]]"); err != nil || strings.Count(said, "run=\"\" tool=\"\"") != 1 {
			t.Errorf("[[say: %s]] returned %s, %v", text, said, err)
		}
	})
}
