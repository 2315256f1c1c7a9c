package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	stint "github.com/stint-dev/stint"
)

const (
	pullerAge = 5 * time.Minute // age of a puller at which it is replaced and credentials are read again
	stallTime = time.Minute     // maximum time without data during a download
	tries     = 3               // maximum number of attempts of a download
)

func newTransport() *http.Transport {
	t := remote.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = 30 * time.Second
	return t
}

// insecureGuard is a transport that refuses plain HTTP, except for registries for
// which insecure returns true.
type insecureGuard struct {
	inner    http.RoundTripper
	insecure func(string) bool
}

func (g insecureGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !g.insecure(r.URL.Host) {
		return nil, errPlain
	}
	return g.inner.RoundTrip(r)
}

// errorKeychain joins errCredentials to errors of reading credentials.
type errorKeychain struct{ inner authn.Keychain }

// Resolve returns the credentials for a registry. All errors wrap errCredentials.
func (k errorKeychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	a, err := authn.Resolve(context.Background(), k.inner, target)
	if err != nil {
		return nil, errors.Join(errCredentials, err)
	}
	return a, nil
}

// puller sends requests to registries and caches the authorization for each.
type puller struct {
	*remote.Puller
	since time.Time
}

func (s *Store) registries() (*puller, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.puller; p != nil && s.config.Now().Sub(p.since) < pullerAge {
		return p, nil
	}
	inner, err := remote.NewPuller(
		remote.WithTransport(insecureGuard{s.transport, s.config.Insecure}),
		remote.WithAuthFromKeychain(errorKeychain{s.config.Keychain}),
		remote.WithUserAgent("stint"),
		remote.WithRetryBackoff(remote.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Jitter: 0.1, Steps: 3}),
	)
	if err != nil {
		return nil, err
	}
	s.puller = &puller{Puller: inner, since: s.config.Now()}
	return s.puller, nil
}

// discardPuller removes p from the store, so that the next request reads credentials
// again.
func (s *Store) discardPuller(p *puller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.puller == p {
		s.puller = nil
	}
}

// ask calls f, which sends a request to a registry, with a timeout of Config.AskTime.
// The request obtains an authorization that later requests share. Therefore the
// context of f ends with the store, not with the caller's context.
func ask[T any](s *Store, r Reference, f func(context.Context, *puller, name.Repository) (T, error)) (T, error) {
	var none T
	repository, err := r.repository(s.config.Insecure(r.Registry))
	if err != nil {
		return none, invalid(err, "The image '%s' is not named in a way that registries understand. Check its name.", r)
	}
	p, err := s.registries()
	if err != nil {
		return none, fmt.Errorf("connecting to registries: %w", err)
	}
	ctx, cancel := context.WithTimeout(s.life, s.config.AskTime)
	defer cancel()
	answer, err := f(ctx, p, repository)
	if err == nil {
		return answer, nil
	}
	s.discardPuller(p)
	if _, ok := errors.AsType[*stint.Error](err); ok {
		return none, err
	}
	return none, registryError(r, err)
}

// head returns the current digest of a tag. If the registry does not send the digest
// in a header, head computes it from the manifest.
func (s *Store) head(r Reference) (string, error) {
	return ask(s, r, func(ctx context.Context, p *puller, in name.Repository) (string, error) {
		tag := in.Tag(r.Tag)
		d, err := p.Head(ctx, tag)
		if err == nil {
			return d.Digest.String(), nil
		}
		if _, answered := errors.AsType[*transport.Error](err); answered || isUnreachable(err) {
			return "", err
		}
		whole, err := p.Get(ctx, tag)
		if err != nil {
			return "", err
		}
		return digestOf(whole.Manifest), nil
	})
}

// manifest returns the manifest or index with a digest. The registry client verifies
// the digest.
func (s *Store) manifest(r Reference, digest string) (*remote.Descriptor, error) {
	return ask(s, r, func(ctx context.Context, p *puller, in name.Repository) (*remote.Descriptor, error) {
		return p.Get(ctx, in.Digest(digest))
	})
}

// blob opens the content with a digest. If the content does not match the digest, the
// last read returns an error.
func (s *Store) blob(ctx context.Context, r Reference, digest v1.Hash) (io.ReadCloser, error) {
	repository, err := r.repository(s.config.Insecure(r.Registry))
	if err != nil {
		return nil, err
	}
	p, err := s.registries()
	if err != nil {
		return nil, err
	}
	layer, err := p.Layer(ctx, repository.Digest(digest.String()))
	if err != nil {
		return nil, err
	}
	return layer.Compressed()
}

// download downloads a blob to a file. It repeats an interrupted download from the
// start, with at most tries attempts. It calls count with the number of bytes of each
// read, and with a negative number before it repeats a download.
func (s *Store) download(ctx context.Context, r Reference, d v1.Descriptor, to string, count func(int64)) error {
	for try := 1; ; try++ {
		got := int64(0)
		err := s.downloadOnce(ctx, r, d, to, func(n int64) { got += n; count(n) })
		_, answered := errors.AsType[*transport.Error](err)
		_, ours := errors.AsType[*os.PathError](err)
		switch {
		case err == nil || ours:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case answered || try == tries:
			return registryError(r, err)
		}
		count(-got)
	}
}

func (s *Store) downloadOnce(ctx context.Context, r Reference, d v1.Descriptor, to string, count func(int64)) (err error) {
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(stallTime, func() { cancel(errStalled) })
	defer stall.Stop()
	content, err := s.blob(ctx, r, d.Digest)
	if err != nil {
		return err
	}
	defer content.Close()
	seen := readerFunc(func(p []byte) (int, error) {
		n, err := content.Read(p)
		stall.Reset(stallTime)
		count(int64(n))
		return n, err
	})
	n, err := io.CopyBuffer(struct{ io.Writer }{file}, io.LimitReader(seen, d.Size+1), make([]byte, 128<<10))
	switch {
	case errors.Is(context.Cause(ctx), errStalled):
		return errStalled
	case err == nil && n != d.Size:
		return fmt.Errorf("the registry sent %d bytes or more instead of %d", n, d.Size)
	}
	return err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func digestOf(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }
