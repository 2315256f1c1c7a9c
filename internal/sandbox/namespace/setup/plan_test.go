//go:build linux && (amd64 || arm64)

package setup_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/layout"
	"github.com/stint-dev/stint/internal/sandbox/namespace/setup"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	want := setup.Plan{
		UserRange: true,
		Entries:   []layout.Entry{{Path: "/usr"}, {Path: "/bin", Link: "usr/bin"}, {Path: "/etc/x", File: true, Source: "/y"}},
		Etc:       []layout.File{{Name: "passwd", Data: []byte("root")}},
		Mounts:    []setup.Mount{{Target: "/home/agent", Source: "\xff", FD: 5, Writable: true, MakeTarget: true}, {Target: "/data", Layers: []string{"/a", "/b"}, Upper: "/u", AliasOf: "/c"}},
		Filter:    []unix.SockFilter{{Code: 65535, Jt: 255, Jf: 1, K: 1<<32 - 1}, {}},
		Image:     setup.Mount{Source: "/image", FD: 9}, Trust: setup.Mount{Source: "/bundle"},
		ShmMax: 1 << 40, TmpMax: -1, Network: true,
		Kernel: setup.Kernel{Argv: []string{"kernel", "--flag"}, Files: []layout.File{{Name: "config", Data: []byte("{}")}}, First: 11},
	}
	var got setup.Plan
	if err := agentinit.Decode(agentinit.Encode(&want), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func FuzzPlan(f *testing.F) {
	f.Add(agentinit.Encode(&setup.Plan{Etc: []layout.File{{Name: "a"}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = agentinit.Decode(b, &setup.Plan{}) // it must not panic or allocate without bound
	})
}
