package client

import (
	"bytes"
	"context"
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
	method     string
	path       []string // segments below /v1, escaped by request
	query      url.Values
	body       any      // value to encode as JSON; nil for none
	content    *content // body of another media type; used if the field body is nil
	key        string   // Idempotency-Key; empty for none
	repeatable bool     // a POST without a key that can be repeated
	stream     bool     // do not buffer the response's body: the caller reads it from the connection
	header     http.Header
}

// content is the body of a request. Each attempt calls open at least once.
type content struct {
	mediaType string
	open      func() io.Reader
	size      int64 // bytes; -1 if unknown
}

func bytesContent(mediaType string, b []byte) *content {
	return &content{mediaType, func() io.Reader { return bytes.NewReader(b) }, int64(len(b))}
}

// maxResponse limits a response that is not streamed, in bytes.
const maxResponse = 256 << 20

// do sends the call, decodes the JSON response into out unless out is nil, and
// returns the HTTP status.
func (c *Client) do(ctx context.Context, r call, out any) (int, error) {
	res, err := c.retry(ctx, r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusFound {
		return 0, errorOf(res)
	}
	if out == nil || res.StatusCode == http.StatusNoContent {
		return res.StatusCode, nil
	}
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return res.StatusCode, fmt.Errorf("read the response to %s %s: %w", r.method, res.Request.URL.Path, err)
	}
	return res.StatusCode, nil
}

// fetch sends the call and returns its JSON response.
func fetch[T any](ctx context.Context, c *Client, r call) (*T, error) {
	out, _, err := create[T](ctx, c, r)
	return out, err
}

// create sends the call and returns its JSON response. created reports whether the
// status is 201, which means that the server created a resource.
func create[T any](ctx context.Context, c *Client, r call) (out *T, created bool, err error) {
	out = new(T)
	status, err := c.do(ctx, r, out)
	if err != nil {
		return nil, false, err
	}
	return out, status == http.StatusCreated, nil
}

// open sends the call and returns the body of its response, which the caller closes.
func (c *Client) open(ctx context.Context, r call) (io.ReadCloser, error) {
	r.stream = true
	res, err := c.retry(ctx, r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, errorOf(res)
	}
	return res.Body, nil
}

// retry sends the call until it succeeds, fails permanently, or was sent
// Options.Attempts times. The caller closes the body of the response.
func (c *Client) retry(ctx context.Context, r call) (*http.Response, error) {
	if r.body != nil {
		body, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		r.content = bytesContent("application/json", body)
	}
	repeatable := r.method != http.MethodPost || r.key != "" || r.repeatable
	for attempt := 1; ; attempt++ {
		res, err := c.once(ctx, &r)
		if err == nil {
			return res, nil
		}
		if e, ok := errors.AsType[*Error](err); ok && e.Status == http.StatusNotFound && attempt > 1 && r.method == http.MethodDelete {
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil // an earlier attempt deleted the resource
		}
		if !repeatable || attempt >= c.attempts || !isTemporary(ctx, err) {
			return nil, err
		}
		if c.pause(ctx, attempt, err) != nil {
			return nil, err
		}
	}
}

func (c *Client) once(ctx context.Context, r *call) (*http.Response, error) {
	req, err := c.request(ctx, r)
	if err != nil {
		return nil, err
	}
	if r.content != nil {
		open := func() (io.ReadCloser, error) { return io.NopCloser(r.content.open()), nil }
		req.Body, _ = open()
		req.ContentLength = r.content.size
		req.Header.Set("Content-Type", r.content.mediaType)
		if r.content.size >= 0 {
			req.GetBody = open
		}
	}
	res, err := c.send(req)
	if err != nil || r.stream {
		return res, err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, c.sendError(err)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// request returns the request of a call without its body.
func (c *Client) request(ctx context.Context, r *call) (*http.Request, error) {
	target := c.base.JoinPath("v1")
	for _, segment := range r.path {
		if segment == "" || segment == "." || segment == ".." {
			return nil, fmt.Errorf("'%s' is not an identifier or name", segment)
		}
		target.RawPath = target.EscapedPath() + "/" + url.PathEscape(segment)
		target.Path += "/" + segment
	}
	target.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), nil)
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

// send sends req. It returns the response if its status is 2xx or 302, an *Error if the
// response has another status, and a *sendError if the connection fails.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.sendError(err)
	}
	if res.StatusCode >= 300 && res.StatusCode != http.StatusFound {
		return nil, errorOf(res)
	}
	return res, nil
}

func (c *Client) sendError(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the message of sendError contains the address
	}
	return &sendError{to: c.base.Redacted(), cause: err}
}

// sendError reports that no complete response arrived, because the connection failed.
type sendError struct {
	to    string
	cause error
}

func (e *sendError) Error() string { return "talk to the server at " + e.to + ": " + e.cause.Error() }
func (e *sendError) Unwrap() error { return e.cause }

// isTemporary reports whether a request that failed with err should be repeated:
// ctx has not ended, and err is a failed connection, or a temporary error response
// that requests a pause of at most a minute.
func isTemporary(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.isTemporary() && e.RetryAfter <= time.Minute
	}
	_, ok := errors.AsType[*sendError](err)
	return ok
}

// pause waits before the next attempt: for the time that the server requested, or
// for an exponentially growing time with jitter. It returns an error if ctx ends first.
func (c *Client) pause(ctx context.Context, attempt int, cause error) error {
	wait := min(c.backoff<<min(attempt-1, 10), 30*c.backoff)
	wait = wait/2 + rand.N(wait/2+1)
	if e, ok := errors.AsType[*Error](cause); ok && e.RetryAfter > 0 {
		wait = e.RetryAfter
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(wait):
		return nil
	}
}
