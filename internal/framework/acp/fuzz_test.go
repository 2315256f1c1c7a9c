package acp_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/acp"
)

// FuzzClient checks that the client never panics, answers a line with at most
// one line, sends nothing after it closed standard input, and returns valid
// UTF-8.
func FuzzClient(f *testing.F) {
	talks, err := filepath.Glob("testdata/*.talk")
	if err != nil || len(talks) == 0 {
		f.Fatalf("no talks to begin with: %v", err)
	}
	for _, file := range talks {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var said []byte
		for line := range bytes.Lines(b) {
			if rest, ok := bytes.CutPrefix(line, []byte("< ")); ok {
				said = append(said, rest...)
			}
		}
		f.Add(said, strings.Contains(file, "resume"))
		f.Add(said, true)
	}
	f.Add([]byte(`{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}`+"\n"+`{"id":2,"error":{"code":-32000}}`), true)
	f.Fuzz(func(t *testing.T, said []byte, resume bool) {
		in := framework.Input{Definition: &stint.Definition{Model: "m"}, Prompt: "p", MCP: []framework.MCPServer{{Name: "n", URL: "http://n"}}}
		if resume {
			in.Resume = &framework.Conversation{ID: "old"}
		}
		d, over := acp.Framework{}.NewDecoder(in), false
		check := func(s framework.Step, lines int) {
			if n := bytes.Count(s.Send, []byte("\n")); n > lines || n == 0 && len(s.Send) > 0 || over && n > 0 {
				t.Fatalf("%d lines were answered with %q, over %v", lines, s.Send, over)
			}
			for _, e := range s.Events {
				if !utf8.ValidString(e.Content) {
					t.Fatalf("text is no UTF-8: %q", e.Content)
				}
			}
			over = over || s.CloseStdin
		}
		for line := range bytes.Lines(said) {
			check(d.Write(framework.Stdout, line), 1)
		}
		check(d.Flush(framework.Stdout), 1)
		check(d.Write(framework.Stderr, said), 0)
		check(d.Flush(framework.Stderr), 0)
		if v := d.Verdict(1); v.Completed == (v.Message != "") {
			t.Fatalf("verdict %+v", v)
		}
		d.Interrupt()
		d.Conversation()
	})
}
