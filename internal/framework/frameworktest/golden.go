// Package frameworktest tests decoders with recordings of real agents.
//
// A recording is a txtar archive in testdata with the files stdout, stderr, exit
// (the exit code, or "killed"), and want (the expected result of decoding). Run the
// tests with -update to write the actual result into want.
package frameworktest

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
)

var update = flag.Bool("update", false, "write what recordings should give anew")

// CheckRecordings decodes each recording in testdata and compares the result with
// the expected one. input returns the framework's input for the recording with the
// given name.
func CheckRecordings(t *testing.T, f framework.Framework, input func(name string) framework.Input) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, file, f, input(name))
		})
	}
}

func check(t *testing.T, file string, f framework.Framework, in framework.Input) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for _, p := range archive.Files {
		parts[p.Name] = string(p.Data)
	}
	code := -1
	if exit := strings.TrimSpace(parts["exit"]); exit != "killed" {
		if code, err = strconv.Atoi(exit); err != nil {
			t.Fatalf("exit code: %v", err)
		}
	} else {
		parts["stdout"] = strings.TrimSuffix(parts["stdout"], "\n")
	}
	d := f.NewDecoder(in)
	var s framework.Step
	s.Join(d.Write(framework.Stdout, []byte(parts["stdout"])))
	s.Join(d.Write(framework.Stderr, []byte(parts["stderr"])))
	s.Join(d.Flush(framework.Stdout))
	s.Join(d.Flush(framework.Stderr))
	got := describe(t, &s, d, code)
	if !*update {
		if diff := cmp.Diff(parts["want"], got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		return
	}
	for i := range archive.Files {
		if archive.Files[i].Name == "want" {
			archive.Files = archive.Files[:i]
			break
		}
	}
	archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
	if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
		t.Fatal(err)
	}
}

// describe returns the result of decoding as text.
func describe(t *testing.T, s *framework.Step, d framework.Decoder, code int) string {
	t.Helper()
	var b strings.Builder
	encode := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	b.WriteString("transcript:\n" + indent(Content(s.Events)))
	for _, e := range s.Events {
		fmt.Fprintf(&b, "event %s\n", encode(e))
	}
	types := make([]string, len(s.Native))
	for i, n := range s.Native {
		types[i] = n.Type
	}
	fmt.Fprintf(&b, "native %s\n", strings.Join(types, " "))
	fmt.Fprintf(&b, "turns %d, ended %t, hangup %t, send %q\n", s.Turns, s.Ended, s.CloseStdin, s.Send)
	fmt.Fprintf(&b, "usage %s\n", encode(s.Usage))
	v := d.Verdict(code)
	fmt.Fprintf(&b, "completed %t %s\n", v.Completed, v.Reason)
	fmt.Fprintf(&b, "message %q\n", v.Message)
	fmt.Fprintf(&b, "final %q\n", v.Final)
	fmt.Fprintf(&b, "conversation %s\n", encode(d.Conversation()))
	return b.String()
}

func indent(text string) string {
	if text == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ") + "\n"
}

// Content returns the concatenated text of events.
func Content(events []stint.OutputData) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(e.Content)
	}
	return b.String()
}
