package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/store"
)

const (
	headerKey      = "Idempotency-Key"
	headerReplayed = "Idempotency-Replayed"

	responseLifetime = 24 * time.Hour
	storeTimeout     = 10 * time.Second
)

// post is a POST request. If it has an Idempotency-Key, its response is stored.
type post struct {
	r      *http.Request
	caller auth.Caller
	body   []byte // JSON; nil if the handler reads the body

	// key identifies the request in the store; it is empty without an
	// Idempotency-Key. claimed is the time at which this request claimed it.
	// stored is set by a handler that has stored the response itself, in the
	// transaction of its change.
	key     string
	claimed stint.Time
	stored  bool
	// digest is the SHA-256 of the body that the handler has read so far. It is
	// nil if the body was read before or the response is not stored.
	digest hash.Hash
}

// bodyKind is the kind of body that a POST request has.
type bodyKind int

const (
	noBody     bodyKind = iota // ignored
	jsonBody                   // a JSON object, which is read before the handler is called
	streamBody                 // read by the handler
)

// staleAfter is the age at which an unfinished request loses its key. The server
// that handled it has probably crashed.
var staleAfter = map[bodyKind]time.Duration{noBody: time.Minute, jsonBody: time.Minute, streamBody: time.Hour}

// post returns a handler that calls f once for each Idempotency-Key.
func (a *api) post(kind bodyKind, f func(*post) (*response, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
		p := &post{r: r, caller: *c}
		key, err := idempotencyKey(r)
		if err != nil {
			return err
		}
		if kind == jsonBody {
			if p.body, err = readJSON(w, r); err != nil {
				return err
			}
		}
		if key == "" {
			resp, err := f(p)
			if err != nil {
				return err
			}
			resp.write(w)
			return nil
		}
		p.key = r.Method + " " + routeOf(r) + " " + key
		if kind == streamBody {
			p.digest = sha256.New()
			r.Body = &digestedBody{r.Body, p.digest}
		}
		return a.once(w, p, kind, f)
	}
}

func idempotencyKey(r *http.Request) (string, error) {
	given := r.Header[headerKey]
	if len(given) == 0 {
		return "", nil
	}
	key := given[0]
	ok := len(given) == 1 && len(key) >= 1 && len(key) <= stint.MaxIdempotencyKey
	for i := 0; ok && i < len(key); i++ {
		ok = key[i] > ' ' && key[i] < 0x7f
	}
	if !ok {
		return "", stint.InvalidParam(headerKey, "'%s' must be 1 to %d visible ASCII characters and occur only once.", headerKey, stint.MaxIdempotencyKey)
	}
	return key, nil
}

var errKeyReused = &stint.Error{
	Kind: stint.KindConflict, Code: stint.CodeKeyReused, Param: headerKey,
	Message: "This Idempotency-Key was used for another request. Use a new key for a new request.",
}

var errKeyInUse = &stint.Error{
	Kind: stint.KindConflict, Code: stint.CodeKeyInUse, Param: headerKey,
	Message: "The first request with this Idempotency-Key is still in progress. Try again in a moment.",
}

// once responds with the stored response of the key. If there is none, it calls f
// and stores the response.
func (a *api) once(w http.ResponseWriter, p *post, kind bodyKind, f func(*post) (*response, error)) error {
	now := a.c.Now()
	p.claimed = stint.TimeOf(now)
	stored, err := a.c.Idempotency.BeginRequest(p.r.Context(), p.caller.OrgID, p.key, a.fingerprint(p),
		p.claimed, stint.TimeOf(now.Add(-staleAfter[kind])), stint.TimeOf(now.Add(responseLifetime)))
	switch {
	case errors.Is(err, store.ErrKeyReused):
		return errKeyReused
	case errors.Is(err, store.ErrKeyInUse):
		return errKeyInUse
	case err != nil:
		return err
	case stored != nil:
		return a.replay(w, p, stored)
	}
	ended := false
	defer func() {
		if !ended { // f panicked: release the key
			a.endRequest(p, nil)
		}
	}()
	resp, err := f(p)
	if errors.Is(err, store.ErrKeyInUse) { // another request has taken over the key
		ended = true
		return errKeyInUse
	}
	a.endRequest(p, a.responseToStore(p, kind, resp, err))
	ended = true
	if err != nil {
		return err
	}
	resp.write(w)
	return nil
}

// fingerprint returns a digest that differs between requests with the same key. It
// includes the user or run, because a response can contain a secret. Of a body that
// the handler reads, it includes the length and type; replay compares the content.
func (a *api) fingerprint(p *post) []byte {
	length := ""
	if p.body == nil {
		length = strconv.FormatInt(p.r.ContentLength, 10) + " " + p.r.Header.Get("Content-Type")
	}
	return a.c.Auth.Fingerprint([]byte(p.caller.UserID), []byte(p.caller.RunID), []byte(p.r.Method), []byte(p.r.URL.Path), []byte(p.r.URL.RawQuery), []byte(length), p.body)
}

// responseToStore returns the response in its stored form, or nil if the key is to be
// released: after errors of the server and incomplete uploads, the client may try
// again.
func (a *api) responseToStore(p *post, kind bodyKind, resp *response, err error) *store.Answer {
	if err != nil {
		if errors.Is(err, context.Canceled) || kind == streamBody {
			return nil
		}
		resp = errorResponse(err)
	}
	if resp.status >= http.StatusInternalServerError || resp.status == http.StatusTooManyRequests {
		return nil
	}
	if p.stored || p.readRest() != nil {
		return nil
	}
	sealed, err := a.seal(p, resp)
	if err != nil {
		a.c.Log.LogAttrs(p.r.Context(), slog.LevelError, "response not stored", slog.Any("error", err))
		return nil
	}
	return sealed
}

// seal returns the stored form of a response. It is encrypted, because it can
// contain a new token.
func (a *api) seal(p *post, resp *response) (*store.Answer, error) {
	sealed, err := a.c.Auth.SealAnswer(append(p.bodyDigest(), resp.body...), p.caller.OrgID+" "+p.key)
	if err != nil {
		return nil, err
	}
	return &store.Answer{Status: resp.status, Header: resp.header, Body: sealed}, nil
}

// replay responds with a stored response, if the body of the request is the same.
func (a *api) replay(w http.ResponseWriter, p *post, stored *store.Answer) error {
	opened, err := a.c.Auth.OpenAnswer(stored.Body, p.caller.OrgID+" "+p.key)
	if err != nil {
		return err
	}
	if err := p.readRest(); err != nil {
		return err
	}
	responseBody, same := bytes.CutPrefix(opened, p.bodyDigest())
	if !same {
		return errKeyReused
	}
	w.Header().Set(headerReplayed, "true")
	(&response{status: stored.Status, header: stored.Header, body: responseBody}).write(w)
	return nil
}

// digestedBody adds what is read to a digest.
type digestedBody struct {
	io.ReadCloser
	digest hash.Hash
}

func (b *digestedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.digest.Write(p[:n]) // never fails
	return n, err
}

// readRest reads the rest of a body that the handler reads, for its digest.
func (p *post) readRest() error {
	if p.digest == nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, p.r.Body); err != nil {
		return errTruncatedBody
	}
	return nil
}

// bodyDigest returns the digest of a body that the handler reads, and nil for others.
func (p *post) bodyDigest() []byte {
	if p.digest == nil {
		return nil
	}
	return p.digest.Sum(nil)
}

// endRequest stores the response, or releases the key if sealed is nil, even if the
// client has disconnected.
func (a *api) endRequest(p *post, sealed *store.Answer) {
	if p.stored && sealed == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.r.Context()), storeTimeout)
	defer cancel()
	if err := a.c.Idempotency.EndRequest(ctx, p.caller.OrgID, p.key, p.claimed, sealed); err != nil {
		a.c.Log.LogAttrs(ctx, slog.LevelError, "response not stored", slog.Any("error", err))
	}
}
