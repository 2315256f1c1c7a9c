package service_test

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/image/imagetest"
)

// TestKill9GVisor kills the server while runs execute in gVisor sandboxes.
func TestKill9GVisor(t *testing.T) {
	h := installation.New(t, "--isolation", "gvisor", "--parked", "1")
	h.Start()
	crashRepeatedly(t, h, crashPlan{4, 6}, func(int) { h.Stop(syscall.SIGKILL) })
}

// TestKill9WhilePulling kills the server while it pulls an image. The next server must
// remove the partial image, and the run must fail.
func TestKill9WhilePulling(t *testing.T) {
	t.Parallel()
	halved := make(chan struct{})
	half := sync.OnceFunc(func() { close(halved) })
	registry := imagetest.Serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
				w = &stalled{ResponseWriter: w, request: r, left: 1 << 20, stall: half}
			}
			next.ServeHTTP(w, r)
		})
	})
	noise := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	ref, _ := imagetest.Push(t, registry, "acme/big:1", map[string]imagetest.File{"data": {Data: noise}}, v1.Config{})
	h := installation.New(t)
	h.Start()
	c := h.Login(t, "acme")
	imageAgent(t, c, "big", ref)
	r := installation.Create(t, c, stint.NewRun{Agent: "big", Prompt: "x"})
	<-halved
	h.Stop(syscall.SIGKILL)
	work := filepath.Join(h.Data, "images", "work")
	if half, err := os.ReadDir(work); err != nil || len(half) == 0 {
		t.Fatalf("the server was not pulling an image: %v, %v", half, err)
	}
	h.Start()
	if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
		t.Errorf("a part of an image is left: %v, %v", left, err)
	}
	if run := installation.Ended(t, c, r.ID); isCompleted(t, run) {
		t.Error("the run completed")
	}
	if left := h.Leftovers(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// stalled is a response writer that forwards left bytes. It then calls stall and blocks
// until the client disconnects.
type stalled struct {
	http.ResponseWriter
	request *http.Request
	left    int // number of bytes to forward before the stall
	stall   func()
}

func (s *stalled) Write(p []byte) (int, error) {
	n, err := s.ResponseWriter.Write(p[:min(len(p), s.left)])
	s.left -= n
	if err != nil || n == len(p) {
		return n, err
	}
	err = http.NewResponseController(s.ResponseWriter).Flush()
	s.stall()
	<-s.request.Context().Done()
	return n, errors.Join(err, errors.New("the client left"))
}
