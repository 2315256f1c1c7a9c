package client

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

// call is one request of the API.
type call struct {
	method string
	path   []string // segments below /v1, escaped by send
	query  url.Values
	body   any      // JSON; nil for none
	raw    *rawBody // instead of body
	key    string   // Idempotency-Key; empty for none
	repeat bool     // doing it twice is as good as once
	header http.Header
}

// maxAnswer bounds a JSON answer, in bytes.
const maxAnswer = 256 << 20

// do sends the call and reads the JSON answer into out, which may be nil. It
// repeats what is safe to repeat.
func (c *Client) do(ctx context.Context, r call, out any) error {
	_, err := c.doStatus(ctx, r, out)
	return err
}

func (c *Client) doStatus(ctx context.Context, r call, out any) (int, error) {
	res, err := c.retry(ctx, r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusFound {
		return 0, errorOf(res)
	}
	if out == nil || res.StatusCode == http.StatusNoContent {
		_, err := io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
		return res.StatusCode, err
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out); err != nil {
		return res.StatusCode, fmt.Errorf("read the answer of %s %s: %w", r.method, res.Request.URL.Path, err)
	}
	return res.StatusCode, nil
}

// retry sends the call until it succeeds, fails for good or was tried often
// enough. The answer is a success; its body is the caller's.
func (c *Client) retry(ctx context.Context, r call) (*http.Response, error) {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return nil, fmt.Errorf("write the request: %w", err)
		}
	}
	repeatable := r.method != http.MethodPost || r.key != "" || r.repeat
	for attempt := 1; ; attempt++ {
		res, err := c.once(ctx, r, body)
		if err == nil {
			return res, nil
		}
		if e, ok := errors.AsType[*Error](err); ok && e.Status == http.StatusNotFound && attempt > 1 && r.method == http.MethodDelete {
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil // an earlier attempt did it
		}
		if !repeatable || attempt >= c.attempts || !worthRepeating(ctx, err) {
			return nil, err
		}
		if c.pause(ctx, attempt, err) != nil {
			return nil, err
		}
	}
}

func (c *Client) once(ctx context.Context, r call, body []byte) (*http.Response, error) {
	var content io.Reader
	if r.body != nil {
		content = bytes.NewReader(body)
	}
	req, err := c.request(ctx, r, content)
	if err != nil {
		return nil, err
	}
	switch {
	case r.raw != nil:
		req.Body = io.NopCloser(io.NewSectionReader(r.raw.in, 0, r.raw.size))
		req.ContentLength = r.raw.size
		req.Header.Set("Content-Type", r.raw.contentType)
	case r.body != nil:
		req.Header.Set("Content-Type", "application/json")
	}
	return c.send(req)
}

func (c *Client) request(ctx context.Context, r call, body io.Reader) (*http.Request, error) {
	target := c.base.JoinPath("v1")
	for _, segment := range r.path {
		if segment == "" || segment == "." || segment == ".." {
			return nil, fmt.Errorf("'%s' is no identifier or name that a request can carry", segment)
		}
		target.RawPath = target.EscapedPath() + "/" + url.PathEscape(segment)
		target.Path += "/" + segment
	}
	target.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.userAgent)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	maps.Copy(req.Header, r.header)
	return req, nil
}

// send gives the answer when it is a success, else its *Error.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if res.StatusCode >= 300 && res.StatusCode != http.StatusFound {
		return nil, errorOf(res)
	}
	return res, nil
}

func (c *Client) unreachable(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the address stands in our own sentence
	}
	return &sendError{to: c.base.Redacted(), cause: err}
}

// sendError says that no answer came: the network or the server failed.
type sendError struct {
	to    string
	cause error
}

func (e *sendError) Error() string { return "talk to the server at " + e.to + ": " + e.cause.Error() }
func (e *sendError) Unwrap() error { return e.cause }

func worthRepeating(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.passing() && e.RetryAfter <= time.Minute
	}
	_, passing := errors.AsType[*sendError](err)
	return passing
}

// pause waits before the next attempt: what the server asked for, else a
// growing time with jitter.
func (c *Client) pause(ctx context.Context, attempt int, cause error) error {
	wait := min(c.backoff<<min(attempt-1, 10), 30*c.backoff)
	wait = wait/2 + rand.N(wait/2+1)
	if e, ok := errors.AsType[*Error](cause); ok && e.RetryAfter > 0 {
		wait = e.RetryAfter
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// newKey returns a random Idempotency-Key.
func newKey() string {
	var random [16]byte
	crand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}
