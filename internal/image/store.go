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
)

const maxPulls = 4 // at once; more wait for their turn

// Config says where and how images are kept. Only Dir is required.
type Config struct {
	Dir        string                     // belongs to the store; made with mode 0700
	Keychain   authn.Keychain             // credentials of registries; default: the Docker configuration of the server's user
	Platform   string                     // "linux/arm64"; default: linux on this machine's architecture
	MaxBytes   int64                      // of one image unpacked, in blocks of 4 KiB; default 16 GiB
	MaxEntries int64                      // of one image, over all layers; default 1,000,000
	KeepBytes  int64                      // of roots that nobody uses; default 20 GiB
	AskTime    time.Duration              // for one question to a registry, content aside; default 10 s
	Insecure   func(registry string) bool // registries that may speak plain http; default: those of this machine
	Now        func() time.Time
	Logger     *slog.Logger
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

// Store keeps the roots of images. It is safe for concurrent use.
type Store struct {
	config    Config
	platform  *v1.Platform
	boot      string // of the machine; "" where it is unknown
	transport *http.Transport
	slots     chan struct{} // held by each pull

	life context.Context // of pulls; ends with Close
	end  context.CancelCauseFunc
	work sync.WaitGroup

	mu      sync.Mutex // guards what follows, all of roots and flights, and names.json
	closed  bool
	roots   map[string]*root     // by the digest of the image's manifest
	names   map[string]tagRecord // by Reference.key
	flights map[string]*flight
	puller  *puller
}

// Open opens the store below c.Dir and removes what an earlier process did not
// finish. Close it.
func Open(ctx context.Context, c Config) (*Store, error) {
	c = c.withDefaults()
	platform, err := v1.ParsePlatform(c.Platform)
	if err != nil {
		return nil, fmt.Errorf("platform of images: %w", err)
	}
	s := &Store{
		config: c, platform: platform, boot: bootID(), slots: make(chan struct{}, maxPulls),
		roots: map[string]*root{}, names: map[string]tagRecord{}, flights: map[string]*flight{},
	}
	s.transport = newTransport()
	if err := s.openFolders(); err != nil {
		return nil, fmt.Errorf("opening image store: %w", err)
	}
	if err := s.load(ctx); err != nil {
		return nil, fmt.Errorf("loading images: %w", err)
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	return s, nil
}

// openFolders makes the store's folders, for nobody but the server, and
// removes what was in the making.
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

// Close ends all pulls and waits for them. Roots stay.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end(errClosed)
	s.work.Wait()
	s.transport.CloseIdleConnections()
}

// spawn runs f in a goroutine that Close waits for. The caller holds mu.
func (s *Store) spawn(f func()) error {
	if s.closed {
		return errClosed
	}
	s.work.Go(f)
	return nil
}

func (s *Store) path(elements ...string) string {
	return filepath.Join(append([]string{s.config.Dir}, elements...)...)
}
