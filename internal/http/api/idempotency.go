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
	maxKey         = 255
	keepAnswers    = 24 * time.Hour
	storeTimeout   = 10 * time.Second
)

// post is a request that changes something. Its answer is kept where the
// client sent an Idempotency-Key.
type post struct {
	r      *http.Request
	caller auth.Caller
	body   []byte // JSON; nil where the route streams its body

	// key is under which the store knows the request; empty without an
	// Idempotency-Key; claimed tells since when it is this one's. A handler that
	// stores the answer itself, together with what it did, sets answered.
	key      string
	claimed  stint.Time
	answered bool

	// streamed adds up the body as the handler reads it, where the answer is to
	// be kept; nil otherwise.
	streamed hash.Hash
}

// bodyKind says what a POST carries.
type bodyKind int

const (
	noBody     bodyKind = iota // a body is not asked for and ignored
	jsonBody                   // a JSON object, read before the handler
	streamBody                 // read by the handler
)

// after how long a request that holds a key and never ended is given up: the
// server died under it.
var staleAfter = map[bodyKind]time.Duration{noBody: time.Minute, jsonBody: time.Minute, streamBody: time.Hour}

// post makes a handler of a function that answers with a reply, once for each
// Idempotency-Key.
func (a *api) post(kind bodyKind, f func(*post) (*reply, error)) handler {
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
			answer, err := f(p)
			if err != nil {
				return err
			}
			answer.write(w)
			return nil
		}
		p.key = r.Method + " " + routeOf(r) + " " + key
		if kind == streamBody {
			p.streamed = sha256.New()
			r.Body = &summedBody{r.Body, p.streamed}
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
	ok := len(given) == 1 && len(key) >= 1 && len(key) <= maxKey
	for i := 0; ok && i < len(key); i++ {
		ok = key[i] > ' ' && key[i] < 0x7f
	}
	if !ok {
		return "", stint.InvalidParam(headerKey, "'%s' must be 1 to %d visible ASCII characters, given once.", headerKey, maxKey)
	}
	return key, nil
}

var errKeyReused = &stint.Error{
	Kind: stint.KindConflict, Code: stint.CodeKeyReused, Param: headerKey,
	Message: "This Idempotency-Key was used for another request. Use a new key for a new request.",
}

var errKeyInUse = &stint.Error{
	Kind: stint.KindConflict, Code: stint.CodeKeyInUse, Param: headerKey,
	Message: "The first request with this Idempotency-Key is still being worked. Try again in a moment.",
}

// once answers as the request with this key was answered before, or works it
// and keeps the answer.
func (a *api) once(w http.ResponseWriter, p *post, kind bodyKind, f func(*post) (*reply, error)) error {
	now := a.c.Now()
	p.claimed = stint.TimeOf(now)
	kept, err := a.c.Idempotency.BeginRequest(p.r.Context(), p.caller.OrgID, p.key, a.fingerprint(p),
		p.claimed, stint.TimeOf(now.Add(-staleAfter[kind])), stint.TimeOf(now.Add(keepAnswers)))
	switch {
	case errors.Is(err, store.ErrKeyReused):
		return errKeyReused
	case errors.Is(err, store.ErrKeyInUse):
		return errKeyInUse
	case err != nil:
		return err
	case kept != nil:
		return a.replay(w, p, kept)
	}
	ended := false
	defer func() {
		if !ended { // a panic: the request may be tried again
			a.endRequest(p, nil)
		}
	}()
	answer, err := f(p)
	if errors.Is(err, store.ErrKeyInUse) { // it took so long that another took the key over
		ended = true
		return errKeyInUse
	}
	a.endRequest(p, a.toKeep(p, kind, answer, err))
	ended = true
	if err != nil {
		return err
	}
	answer.write(w)
	return nil
}

// fingerprint tells two requests with one key apart, also those of two users or
// runs: what one is answered may be a secret. Of a body that is not read
// beforehand it knows the length and the type; replay compares the rest.
func (a *api) fingerprint(p *post) []byte {
	length := ""
	if p.body == nil {
		length = strconv.FormatInt(p.r.ContentLength, 10) + " " + p.r.Header.Get("Content-Type")
	}
	return a.c.Auth.Fingerprint([]byte(p.caller.UserID), []byte(p.caller.RunID), []byte(p.r.Method), []byte(p.r.URL.Path), []byte(p.r.URL.RawQuery), []byte(length), p.body)
}

// toKeep is the answer to store, or nil to give the key up: failures of the
// server may be tried again, and so may an upload that did not arrive whole.
func (a *api) toKeep(p *post, kind bodyKind, answer *reply, err error) *store.Answer {
	if err != nil {
		if errors.Is(err, context.Canceled) || kind == streamBody {
			return nil
		}
		answer = errorReply(err)
	}
	if answer.status >= http.StatusInternalServerError || answer.status == http.StatusTooManyRequests {
		return nil
	}
	if p.answered || p.finishBody() != nil {
		return nil
	}
	kept, err := a.seal(p, answer)
	if err != nil {
		a.c.Log.LogAttrs(p.r.Context(), slog.LevelError, "answer not kept", slog.Any("error", err))
		return nil
	}
	return kept
}

// seal makes an answer fit to be stored. It may hold a new token, so it is
// encrypted.
func (a *api) seal(p *post, answer *reply) (*store.Answer, error) {
	sealed, err := a.c.Auth.SealAnswer(append(p.sum(), answer.body...), p.caller.OrgID+" "+p.key)
	if err != nil {
		return nil, err
	}
	return &store.Answer{Status: answer.status, Header: answer.header, Body: sealed}, nil
}

func (a *api) replay(w http.ResponseWriter, p *post, kept *store.Answer) error {
	body, err := a.c.Auth.OpenAnswer(kept.Body, p.caller.OrgID+" "+p.key)
	if err != nil {
		return err
	}
	if err := p.finishBody(); err != nil {
		return err
	}
	body, same := bytes.CutPrefix(body, p.sum())
	if !same {
		return errKeyReused
	}
	w.Header().Set(headerReplayed, "true")
	(&reply{status: kept.Status, header: kept.Header, body: body}).write(w)
	return nil
}

// summedBody is a body that is added up while it is read.
type summedBody struct {
	io.ReadCloser
	sum hash.Hash
}

func (b *summedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.sum.Write(p[:n]) // never fails
	return n, err
}

// finishBody reads what is left of a streamed body, so that its sum is of the
// whole.
func (p *post) finishBody() error {
	if p.streamed == nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, p.r.Body); err != nil {
		return stint.InvalidParam("body", "The body ended before its time.")
	}
	return nil
}

// sum is that of a streamed body, nil for others.
func (p *post) sum() []byte {
	if p.streamed == nil {
		return nil
	}
	return p.streamed.Sum(nil)
}

// endRequest stores the answer or gives the key up, also when the client has
// gone meanwhile.
func (a *api) endRequest(p *post, kept *store.Answer) {
	if p.answered && kept == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.r.Context()), storeTimeout)
	defer cancel()
	if err := a.c.Idempotency.EndRequest(ctx, p.caller.OrgID, p.key, p.claimed, kept); err != nil {
		a.c.Log.LogAttrs(ctx, slog.LevelError, "answer not kept", slog.Any("error", err))
	}
}
