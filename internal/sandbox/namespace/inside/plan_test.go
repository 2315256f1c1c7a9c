//go:build linux && (amd64 || arm64)

package inside_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/namespace/inside"
	"github.com/stint-dev/stint/internal/sandbox/warden"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	want := inside.Plan{
		Ranged: true,
		System: []inside.SystemEntry{{Path: "/usr"}, {Path: "/bin", Link: "usr/bin"}, {Path: "/etc/x", File: true, Source: "/y"}},
		Etc:    []inside.File{{Name: "passwd", Data: []byte("root")}},
		Mounts: []inside.Mount{{Target: "/home/agent", Source: "\xff", FD: 5, Writable: true, Make: true}, {Target: "/data", Layers: []string{"/a", "/b"}, Upper: "/u", Twin: "/c"}},
		Filter: []unix.SockFilter{{Code: 65535, Jt: 255, Jf: 1, K: 1<<32 - 1}, {}},
		Image:  inside.Mount{Source: "/image", FD: 9}, Trust: inside.Mount{Source: "/bundle"},
		ShmMax: 1 << 40, TmpMax: -1, Network: true,
		Inner: inside.Inner{Argv: []string{"kernel", "--flag"}, Files: []inside.File{{Name: "config", Data: []byte("{}")}}, First: 11},
	}
	var got inside.Plan
	if err := warden.Decode(warden.Encode(&want), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func FuzzPlan(f *testing.F) {
	f.Add(warden.Encode(&inside.Plan{Etc: []inside.File{{Name: "a"}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = warden.Decode(b, &inside.Plan{}) // only must not panic, or allocate without measure
	})
}
