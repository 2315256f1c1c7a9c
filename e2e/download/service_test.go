package download_test

import (
	"embed"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/e2e/installation"
)

// service is a server, a proxy in front of it, and the client of a user.
type service struct {
	client *client.Client
	token  string
	front  string // the proxy's URL
}

// serve starts a service with its own data folder. env and flags can select another
// storage. The test fails if the service panics.
func serve(t *testing.T, env []string, flags ...string) *service {
	t.Helper()
	var h *installation.Host
	t.Cleanup(func() { // runs after the cleanup that stops the server
		if h != nil && strings.Contains(h.Log(), "panicked") {
			t.Error("the service panicked because of its clients")
		}
	})
	h = installation.New(t, flags...)
	h.Env = env
	h.Start()
	w := &service{client: h.Login(t, "acme"), front: front(t, "http://"+h.Listen)}
	token, err := w.client.Tokens.Create(t.Context(), stint.NewToken{Name: "curl"})
	installation.Check(t, err)
	w.token = token.Secret
	return w
}

// push creates a volume, pushes a folder that tar has packed, and returns the ID of the
// volume.
func (w *service) push(t testing.TB, name, dir string) (id string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pushed.tar.gz")
	program{t, dir}.must("tar", "-czf", file, "--format=posix", ".")
	in, err := os.Open(file)
	installation.Check(t, err)
	defer in.Close()
	v, err := w.client.Volumes.Create(t.Context(), name)
	installation.Check(t, err)
	_, _, err = w.client.Volumes.Push(t.Context(), v.ID, in, nil)
	installation.Check(t, err)
	return v.ID
}

// link requests a download with curl and returns the URL to which the response
// redirects.
func (w *service) link(t testing.TB, id, query string) string {
	t.Helper()
	out := w.curl(t, "-H", "Authorization: Bearer "+w.token, "-o", os.DevNull, "-w", "%{http_code} %{redirect_url}", w.front+"/v1/volumes/"+id+"/download"+query)
	address, ok := strings.CutPrefix(string(out), "302 ")
	if !ok {
		t.Fatalf("a request for a download returned %s", out)
	}
	return address
}

// quiet returns args with options that make curl print only errors, fail for error
// statuses and after four minutes, and use no proxy.
func quiet(args ...string) []string {
	return append([]string{"-sS", "--fail", "--noproxy", "*", "--max-time", "240"}, args...)
}

func (w *service) curl(t testing.TB, args ...string) []byte {
	t.Helper()
	return program{t, t.TempDir()}.must("curl", quiet(args...)...)
}

// fetch downloads link with curl to the file name that the server proposes, which must
// be name. It returns the path of the file.
func (w *service) fetch(t testing.TB, link, name string) string {
	t.Helper()
	dir := t.TempDir()
	program{t, dir}.must("curl", quiet("-OJ", link)...)
	saved, err := os.ReadDir(dir)
	if err != nil || len(saved) != 1 || saved[0].Name() != name {
		t.Fatalf("curl saved %v, %v, not %s", saved, err, name)
	}
	return filepath.Join(dir, name)
}

//go:embed testdata
var testdata embed.FS

// cutHeader is a request header. Its value is the number of bytes of the response body
// after which the proxy closes the connection.
const cutHeader = "X-Cut-After"

// front starts a proxy and returns its URL. The proxy serves the files of the test page
// at /page/ and forwards other requests to the service. The page contains the image
// /page/loaded. The response for the image is delayed until the page has posted to
// /page/listed, so that the browser waits for the listings.
func front(t *testing.T, service string) string {
	t.Helper()
	target, err := url.Parse(service)
	installation.Check(t, err)
	transport := &http.Transport{DisableCompression: true}
	proxy := &httputil.ReverseProxy{
		Transport:      transport,
		FlushInterval:  -1,
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }, // the Host header makes the service return links to the proxy
		ModifyResponse: cutResponse,
		ErrorLog:       log.New(io.Discard, "", 0), // do not log responses that are cut
	}
	finished := make(chan struct{})
	finish := sync.OnceFunc(func() { close(finished) })
	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	mux.HandleFunc("GET /page/{file}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, testdata, "testdata/"+r.PathValue("file"))
	})
	mux.HandleFunc("POST /page/listed", func(http.ResponseWriter, *http.Request) { finish() })
	mux.HandleFunc("GET /page/loaded", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-finished:
		case <-r.Context().Done():
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		finish()
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL
}

func cutResponse(res *http.Response) error {
	given := res.Request.Header.Get(cutHeader)
	if given == "" {
		return nil
	}
	n, err := strconv.ParseInt(given, 10, 64)
	res.Body = &cutBody{res.Body, n}
	return err
}

// cutBody is a response body that fails after left bytes, so that the proxy closes the
// connection.
type cutBody struct {
	io.ReadCloser
	left int64
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errors.New("cut")
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
