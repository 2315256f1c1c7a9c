package app_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/app"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/sealing"
)

// marker returns 100 kB that cannot be compressed. If storage is not encrypted, a stored
// object contains these bytes unchanged.
func marker() []byte {
	b := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// filesWith returns the number of files below dir that contain piece.
func filesWith(t *testing.T, dir string, piece []byte) int {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, piece) {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEncryptedStorage stores a file and searches the whole data folder of the server for
// its content. Exactly one file of the data folder contains the content if encryption is
// off, none if it is on.
func TestEncryptedStorage(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]int{config.EncryptOff: 1, config.EncryptOn: 0, config.EncryptStrict: 0} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := config.Default()
			c.Data, c.EncryptStorage = t.TempDir(), mode
			serve(t, c, func(api *client.Client) { check(t, api, push(t, api, marker()), marker()) })
			if got := filesWith(t, c.Data, marker()[50_000:50_032]); got != want {
				t.Errorf("%d files contain the content, want %d", got, want)
			}
		})
	}
}

// serve starts a server, calls use with a client of it, and closes the server.
func serve(t *testing.T, c config.Config, use func(*client.Client)) {
	t.Helper()
	handler, access, closeAll, err := app.OpenHandler(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	front := httptest.NewServer(handler)
	defer front.Close()
	token, err := access.Login(t.Context(), "acme", "ann", stint.NewToken{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(client.Options{URL: front.URL, Token: token.Secret})
	if err != nil {
		t.Fatal(err)
	}
	use(api)
}

// push creates a volume with one file, marker, and returns the ID of the volume.
func push(t *testing.T, api *client.Client, content []byte) (id string) {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err := w.WriteHeader(&tar.Header{Name: "marker", Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = w.Write(content)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	tree, err := api.Volumes.Create(t.Context(), "data")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := api.Volumes.Push(t.Context(), tree.ID, &archive, &client.PushOptions{ContentType: "application/x-tar"}); err != nil {
		t.Fatal(err)
	}
	return tree.ID
}

// check compares the file marker of a volume with the wanted content.
func check(t *testing.T, api *client.Client, id string, content []byte) {
	t.Helper()
	r, err := api.Volumes.ReadFile(t.Context(), id, "", "marker")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
		t.Errorf("read back %d bytes, %v", len(got), err)
	}
}

// TestInterruptedRotation performs only the first step of a rotation of the installation's
// key: it adds the new key to the key file. The server then still reads its storage, and
// the next rotation completes the change.
func TestInterruptedRotation(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Data, c.EncryptStorage = t.TempDir(), config.EncryptStrict
	path := filepath.Join(c.Data, "key")
	var tree string
	serve(t, c, func(api *client.Client) { tree = push(t, api, marker()) })
	halfway, err := sealing.AddKey(path)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, c, func(api *client.Client) { check(t, api, tree, marker()) })
	k, err := app.OpenKeys(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	n, err := k.RotateInstallation(t.Context())
	if err := errors.Join(err, k.Close()); err != nil || n != 1 {
		t.Fatalf("%d keys were resealed, %v", n, err)
	}
	left, err := sealing.LoadOrCreateKeys(path)
	if diff := cmp.Diff(halfway[:1], left); err != nil || diff != "" {
		t.Errorf("keys of the file: %v (-want +got):\n%s", err, diff)
	}
	serve(t, c, func(api *client.Client) { check(t, api, tree, marker()) })
}
