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

// post is a POST request. If the request has an Idempotency-Key, its response is
// stored (see responseToStore), and later requests with the same key receive the
// stored response.
type post struct {
	r      *http.Request
	caller auth.Caller
	body   []byte // JSON; nil if the handler reads the body

	// key identifies the request in the store: method, route, and
	// Idempotency-Key. It is empty if the request has no Idempotency-Key.
	// claimed is the time at which this request claimed key. A handler sets
	// stored if it has stored the response in the same transaction as its change.
	key     string
	claimed stint.Time
	stored  bool
	// digest computes the SHA-256 of a body that the handler reads. It is nil for
	// other kinds of bodies, and if the request has no Idempotency-Key.
	digest hash.Hash
}

// bodyKind is the kind of body of a POST request.
type bodyKind int

const (
	noBody     bodyKind = iota // a body is ignored
	jsonBody                   // the body is a JSON object, read before the handler is called
	streamBody                 // the handler reads the body
)

// staleAfter is the age at which another request can take over the key of an
// unfinished request, because the server that handled it has probably crashed.
var staleAfter = map[bodyKind]time.Duration{noBody: time.Minute, jsonBody: time.Minute, streamBody: time.Hour}

// post returns a handler that calls f. If the request has an Idempotency-Key and a
// response is stored for it, the handler responds with that instead of calling f.
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

// once responds with the stored response of the key. If no response is stored, once
// calls f, and stores and writes the response.
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

// fingerprint returns a digest that detects different requests with the same key.
// It includes the user and the run, because a stored response can contain a secret.
// If the body was not read as JSON, the digest includes only its length and type;
// if the handler reads the body, replay compares the content.
func (a *api) fingerprint(p *post) []byte {
	length := ""
	if p.body == nil {
		length = strconv.FormatInt(p.r.ContentLength, 10) + " " + p.r.Header.Get("Content-Type")
	}
	return a.c.Auth.Fingerprint([]byte(p.caller.UserID), []byte(p.caller.RunID), []byte(p.r.Method), []byte(p.r.URL.Path), []byte(p.r.URL.RawQuery), []byte(length), p.body)
}

// responseToStore returns the stored form of a response. It returns nil if the
// handler has stored the response, or if the key must be released so that the
// client can try again: after errors of the server, rate limits, cancelled
// requests, incomplete bodies, and failed uploads, or if the response cannot be
// encrypted.
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

// seal returns the stored form of a response. The body is encrypted, because it can
// contain a new token.
func (a *api) seal(p *post, resp *response) (*store.Answer, error) {
	sealed, err := a.c.Auth.SealAnswer(append(p.bodyDigest(), resp.body...), p.caller.OrgID+" "+p.key)
	if err != nil {
		return nil, err
	}
	return &store.Answer{Status: resp.status, Header: resp.header, Body: sealed}, nil
}

// replay responds with a stored response. If the body of this request differs from
// that of the first request, replay returns errKeyReused.
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

// digestedBody is the body of a request; digest hashes all bytes that are read.
type digestedBody struct {
	io.ReadCloser
	digest hash.Hash
}

func (b *digestedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.digest.Write(p[:n]) // never fails
	return n, err
}

// readRest reads the rest of the body, so that digest covers the whole body. It does
// nothing if digest is nil.
func (p *post) readRest() error {
	if p.digest == nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, p.r.Body); err != nil {
		return errTruncatedBody
	}
	return nil
}

// bodyDigest returns the SHA-256 of a body that the handler reads. It returns nil if
// digest is nil.
func (p *post) bodyDigest() []byte {
	if p.digest == nil {
		return nil
	}
	return p.digest.Sum(nil)
}

// endRequest stores the sealed response, even if the client has disconnected. If
// sealed is nil, it releases the key, unless the handler has stored the response.
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
