package image

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/singleflight"
)

const maxPulls = 4 // maximum number of concurrent pulls

// Config contains the store's settings. Only Dir is required.
type Config struct {
	Dir        string                     // folder of the store; created with mode 0700
	Keychain   authn.Keychain             // credentials for registries; default: the Docker configuration of the server's user
	Platform   string                     // such as "linux/arm64"; default: linux with this machine's architecture
	MaxBytes   int64                      // maximum size of one unpacked image, counted in blocks of 4 KiB; default 16 GiB
	MaxEntries int64                      // maximum number of entries in all layers of one image; default 1,000,000
	KeepBytes  int64                      // maximum total size of roots that are not in use; default 20 GiB
	AskTime    time.Duration              // timeout of one request other than downloads; default 10 s
	Insecure   func(registry string) bool // reports whether a registry may use plain HTTP; default: registries on this machine
	Now        func() time.Time           // default: time.Now
	Logger     *slog.Logger               // default: no log
}

func (c Config) withDefaults() Config {
	if c.Keychain == nil {
		c.Keychain = authn.DefaultKeychain
	}
	c.Platform = cmp.Or(c.Platform, "linux/"+runtime.GOARCH)
	c.MaxBytes = cmp.Or(c.MaxBytes, 16<<30)
	c.MaxEntries = cmp.Or(c.MaxEntries, 1_000_000)
	c.KeepBytes = cmp.Or(c.KeepBytes, 20<<30)
	c.AskTime = cmp.Or(c.AskTime, 10*time.Second)
	if c.Insecure == nil {
		c.Insecure = onThisMachine
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func onThisMachine(registry string) bool {
	host := registry
	if h, _, err := net.SplitHostPort(registry); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Store pulls images and stores their roots. It is safe for concurrent use.
type Store struct {
	config    Config
	platform  *v1.Platform
	boot      string // boot ID of the machine; "" if unknown
	transport *http.Transport
	slots     chan struct{} // a semaphore; each running pull holds one element

	life  context.Context // context of requests and pulls; ends with Close
	end   context.CancelCauseFunc
	work  sync.WaitGroup // goroutines of requests and pulls
	group singleflight.Group

	mu     sync.Mutex // guards the fields below, the fields of roots and pulls, and names.json
	closed bool
	roots  map[string]*root     // by the digest of the image's manifest
	names  map[string]tagRecord // by Reference.key
	pulls  map[string]*pull     // running pulls by registry, repository, and digest
	puller *puller
}

// Open opens the store in c.Dir and removes incomplete files of an earlier process. The
// caller must call Close.
func Open(ctx context.Context, c Config) (*Store, error) {
	c = c.withDefaults()
	platform, err := v1.ParsePlatform(c.Platform)
	if err != nil {
		return nil, fmt.Errorf("platform of images: %w", err)
	}
	s := &Store{
		config: c, platform: platform, boot: bootID(), slots: make(chan struct{}, maxPulls),
		transport: newTransport(), roots: map[string]*root{}, names: map[string]tagRecord{}, pulls: map[string]*pull{},
	}
	if err := s.openFolders(); err != nil {
		return nil, fmt.Errorf("opening image store: %w", err)
	}
	if err := s.load(ctx); err != nil {
		return nil, fmt.Errorf("loading images: %w", err)
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	return s, nil
}

// openFolders creates the store's folders, accessible only to the server's user, and
// empties the folder work.
func (s *Store) openFolders() error {
	if err := os.RemoveAll(s.path("work")); err != nil {
		return err
	}
	for _, dir := range []string{s.config.Dir, s.path("roots"), s.path("work")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder
			return err
		}
	}
	return nil
}

// Close cancels all requests and pulls and waits until they have ended. It does not
// remove roots.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end(errClosed)
	s.work.Wait()
	s.transport.CloseIdleConnections()
}

// begin registers a goroutine, for which Close waits. The goroutine must call
// s.work.Done when it ends. begin returns errClosed after Close.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.work.Add(1)
	return nil
}

func (s *Store) path(elements ...string) string {
	return filepath.Join(append([]string{s.config.Dir}, elements...)...)
}
