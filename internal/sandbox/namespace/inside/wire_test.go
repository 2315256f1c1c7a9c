//go:build linux && (amd64 || arm64)

package inside_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/namespace/inside"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	want := inside.Plan{
		Ranged: true,
		System: []inside.SystemEntry{{Path: "/usr"}, {Path: "/bin", Link: "usr/bin"}, {Path: "/etc/x", File: true}},
		Etc:    []sandbox.File{{Name: "passwd", Data: []byte("root")}},
		Mounts: []inside.Mount{{Target: "/home/agent", Source: "\xff", FD: 5, Writable: true, Make: true}, {Target: "/data"}},
		Files:  []sandbox.File{{Name: "prompt", Data: []byte{0, 255}}},
		Filter: []unix.SockFilter{{Code: 65535, Jt: 255, Jf: 1, K: 1<<32 - 1}, {}},
		ShmMax: 1 << 40, TmpMax: -1,
	}
	var got inside.Plan
	if err := inside.Decode(inside.Encode(&want), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	want := inside.Order{Argv: []string{"", "\xff\xfe", "a\nb", strings.Repeat("x", 100_000)}, Env: []string{"A=ü", "B="}, Dir: "/dir"}
	b := inside.Encode(&want)
	var got inside.Order
	if err := inside.Decode(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	for n := range 200 {
		if err := inside.Decode(b[:n], &inside.Order{}); err == nil {
			t.Errorf("a command cut off after %d bytes is accepted", n)
		}
	}
	if err := inside.Decode(append(b, 0), &inside.Order{}); err == nil {
		t.Error("a command with more behind it is accepted")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(inside.Encode(&inside.Order{Argv: []string{"a"}, Dir: "/"}))
	f.Add([]byte(strconv.Itoa(1 << 40)))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = inside.Decode(b, &inside.Plan{}) // only must not panic, or allocate without measure
		_ = inside.Decode(b, &inside.Message{})
		var first, second inside.Order
		if inside.Decode(b, &first) != nil {
			return
		}
		if err := inside.Decode(inside.Encode(&first), &second); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("read twice (-first +second):\n%s", diff)
		}
	})
}
