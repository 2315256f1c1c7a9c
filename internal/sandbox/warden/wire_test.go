//go:build linux && (amd64 || arm64)

package warden_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/sandbox/warden"
)

func TestOrder(t *testing.T) {
	t.Parallel()
	want := warden.Order{Argv: []string{"", "\xff\xfe", "a\nb", strings.Repeat("x", 100_000)}, Env: []string{"A=ü", "B="}, Dir: "/dir"}
	b := warden.Encode(&want)
	var got warden.Order
	if err := warden.Decode(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	for n := range 200 {
		if err := warden.Decode(b[:n], &warden.Order{}); err == nil {
			t.Errorf("a command cut off after %d bytes is accepted", n)
		}
	}
	if err := warden.Decode(append(b, 0), &warden.Order{}); err == nil {
		t.Error("a command with more behind it is accepted")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(warden.Encode(&warden.Order{Argv: []string{"a"}, Dir: "/"}))
	f.Add([]byte(strconv.Itoa(1 << 40)))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = warden.Decode(b, &warden.Message{}) // only must not panic, or allocate without measure
		var first, second warden.Order
		if warden.Decode(b, &first) != nil {
			return
		}
		if err := warden.Decode(warden.Encode(&first), &second); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("read twice (-first +second):\n%s", diff)
		}
	})
}
