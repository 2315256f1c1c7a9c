//go:build linux && (amd64 || arm64)

package agentinit_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
)

func TestCommandRoundTrip(t *testing.T) {
	t.Parallel()
	want := agentinit.Command{Argv: []string{"", "\xff\xfe", "a\nb", strings.Repeat("x", 100_000)}, Env: []string{"A=ü", "B="}, Dir: "/dir"}
	b := agentinit.Encode(&want)
	var got agentinit.Command
	if err := agentinit.Decode(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	for n := range 200 {
		if err := agentinit.Decode(b[:n], &agentinit.Command{}); err == nil {
			t.Errorf("a command truncated after %d bytes is accepted", n)
		}
	}
	if err := agentinit.Decode(append(b, 0), &agentinit.Command{}); err == nil {
		t.Error("a command with trailing bytes is accepted")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(agentinit.Encode(&agentinit.Command{Argv: []string{"a"}, Dir: "/"}))
	f.Add([]byte(strconv.Itoa(1 << 40)))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = agentinit.Decode(b, &agentinit.Message{}) // it must not panic or allocate without bound
		var first, second agentinit.Command
		if agentinit.Decode(b, &first) != nil {
			return
		}
		if err := agentinit.Decode(agentinit.Encode(&first), &second); err != nil {
			t.Fatalf("the decoded command cannot be encoded and decoded: %v", err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("decoded twice (-first +second):\n%s", diff)
		}
	})
}
