package jsonlines_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/framework/jsonlines"
)

func TestCheckLog(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"":                                      "",
		"{\"a\":1}\n{\"b\":2}\n":                "",
		"{\"a\":1}\n{\"b\":":                    "",
		"{\"a\":1}\n{\"b\":{\"c\":{\"a\":2}}\n": "",
		"{\"a\":1}\n{\"b\":{\"c\n":              "line 2 is not JSON",
		"hello\n{}\n":                           "line 1 is not JSON",
		"{}\n\n{\"a\":\x00\x00{\"b\":1}\n":      "line 3 is not JSON",
		"{\"type\":\"mode\",\"id\":\"x{\"type\":1}\n": "",
	} {
		got := ""
		if err := jsonlines.CheckLog([]byte(content)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
	}
}

// CheckLog does a bounded amount of work, even if a torn line contains the
// beginnings of many objects.
func TestCheckLogIsBounded(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 300) + `"` + strings.Repeat("x", 50_000) + "\"}\n"
	if err := jsonlines.CheckLog([]byte(deep)); err == nil {
		t.Error("all beginnings of a line were read to its end")
	}
	long := `{"calls":[` + strings.Repeat(`{"a":1},`, 20_000) + `{"a":{"b":1}` + "\n"
	if err := jsonlines.CheckLog([]byte(long)); err != nil {
		t.Errorf("a torn line of many objects: %v", err)
	}
}
