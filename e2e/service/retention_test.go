package service_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/e2e/installation"
)

// TestRetentionKeepsPaceWithCollection checks that a running server removes old versions
// as often as it collects garbage, so that a collection frees their space.
func TestRetentionKeepsPaceWithCollection(t *testing.T) {
	t.Parallel()
	h := installation.New(t, "--keep-versions", "1", "--gc-every", "1s")
	h.Start()
	c := h.Login(t, "acme")
	v, err := c.Volumes.Create(t.Context(), "data")
	installation.Check(t, err)
	for i := range 3 {
		files := packed(t, map[string]string{"f": strconv.Itoa(i)})
		_, _, err := c.Volumes.Push(t.Context(), v.ID, files, &client.PushOptions{ContentType: "application/x-tar"})
		installation.Check(t, err)
	}
	for deadline := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		var kept []stint.FileSetVersion
		for version, err := range c.Volumes.Versions(t.Context(), v.ID) {
			installation.Check(t, err)
			kept = append(kept, version)
		}
		if len(kept) == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server still has %d versions", len(kept))
		}
	}
}
