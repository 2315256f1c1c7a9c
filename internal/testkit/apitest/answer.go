package apitest

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

var (
	requestIDForm = regexp.MustCompile(`^req_[0-9a-f]{32}$`)
	tokenForm     = regexp.MustCompile(`^Bearer (stint_live_[0-9a-f]{64}|stint_run_[0-9A-Za-z_-]{22,})$`)
)

// checkAnswer compares the response with the API document. The caller can read the body
// afterwards: checkAnswer replaces a JSON body by a copy, and checks an event stream while
// the caller reads it. If the document describes no body, checkAnswer reads one byte and
// puts it back. It does not read other bodies.
func (x *exchange) checkAnswer(resp *http.Response) {
	if !x.isOurs(resp) {
		return
	}
	if resp.StatusCode == http.StatusNotFound && x.target.encodesSlash {
		x.target = target{} // unknown path: a server may decode and clean the path before it looks for the operation
	}
	x.checkCommon(resp)
	promise := x.responseFor(resp.StatusCode)
	if promise == nil {
		return
	}
	x.checkHeaders(resp, promise)
	x.checkConditional(resp.StatusCode)
	if x.req.Method == http.MethodHead {
		return
	}
	x.checkBody(resp, promise)
}

// isOurs reports whether the response must match the API document. This applies to all
// responses of documented paths and of paths below /v1, and to errors of other paths
// unless they are HTML pages.
func (x *exchange) isOurs(resp *http.Response) bool {
	if path := x.req.URL.EscapedPath(); x.target.route != nil || path == "/v1" || strings.HasPrefix(path, "/v1/") {
		return true
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return resp.StatusCode >= 400 && kind != "text/html"
}

// checkCommon checks the rules that apply to all responses.
func (x *exchange) checkCommon(resp *http.Response) {
	id := resp.Header.Get("X-Request-Id")
	if !requestIDForm.MatchString(id) {
		x.fault("X-Request-Id is '%s', not req_ and 32 hexadecimal characters", id)
	}
	if own := x.req.Header.Get("X-Request-Id"); requestIDForm.MatchString(own) && id != own {
		x.fault("X-Request-Id is '%s', in the request it was '%s'", id, own)
	}
	if v := resp.Header.Get("X-API-Version"); v != "v1" {
		x.fault("X-API-Version is '%s', not 'v1'", v)
	}
	if resp.StatusCode >= 500 && !marked(x.req.Context(), failureKey) {
		x.fault("the status is %d", resp.StatusCode)
	}
	if x.target.operation != nil && !x.authorised() && !isRejection(resp.StatusCode) {
		x.fault("the status is %d though the request carries no token", resp.StatusCode)
	}
}

// isRejection reports whether a server may respond with this status to a request
// without a valid token.
func isRejection(status int) bool { return status == 401 || status == 429 || status >= 500 }

// authorised reports whether the operation needs no token, or the request has a
// well-formed token in the Authorization header or any token in the query.
func (x *exchange) authorised() bool {
	schemes := x.doc.security(x.target.operation)
	if len(schemes) == 0 || tokenForm.MatchString(x.req.Header.Get("Authorization")) {
		return true
	}
	return slices.ContainsFunc(schemes, func(name string) bool {
		s := x.doc.Components.SecuritySchemes[name].Value
		return s.In == "query" && x.req.URL.Query().Get(s.Name) != ""
	})
}

// responseFor returns the response that the API document describes for the status. If
// the document describes no such response, responseFor records a fault and returns nil.
func (x *exchange) responseFor(status int) *openapi3.Response {
	if x.target.operation != nil {
		if r := x.target.operation.Responses.Status(status); r != nil {
			return r.Value
		}
		x.fault("the status %d is not documented for %s", status, x.target.operation.OperationID)
		return nil
	}
	var names map[int]string
	if x.target.route == nil {
		names = map[int]string{401: "Unauthorized", 404: "NotFound", 429: "TooManyRequests"}
	} else {
		names = map[int]string{401: "Unauthorized", 405: "MethodNotAllowed", 429: "TooManyRequests"}
	}
	name, ok := names[status]
	if !ok {
		what := "an unknown path"
		if x.target.route != nil {
			what = "a method that the path does not have"
		}
		x.fault("the status of %s is %d", what, status)
		return nil
	}
	return x.doc.Components.Responses[name].Value
}

func (x *exchange) checkHeaders(resp *http.Response, promise *openapi3.Response) {
	for name, header := range promise.Headers {
		if name == "X-Request-Id" || name == "X-API-Version" {
			continue // checked by checkCommon
		}
		values := resp.Header.Values(name)
		if name == "Content-Length" && resp.Uncompressed {
			continue
		}
		switch {
		case len(values) == 0 && header.Value.Required:
			x.fault("the header %s is missing", name)
		case len(values) > 1:
			x.fault("the header %s occurs %d times", name, len(values))
		case len(values) == 1:
			for _, m := range matches(header.Value.Schema.Value, headerValue(header.Value.Schema.Value, values[0])) {
				x.fault("the header %s is '%s': %s", name, values[0], m)
			}
		}
	}
}

// checkConditional records a fault if the status is 206 or 304, but the request has no
// header that permits the status.
func (x *exchange) checkConditional(status int) {
	h := x.req.Header
	switch {
	case status == http.StatusPartialContent && h.Get("Range") == "":
		x.fault("the status is %d for a request without Range", status)
	case status == http.StatusNotModified && h.Get("If-None-Match") == "" && h.Get("If-Modified-Since") == "":
		x.fault("the status is %d for a request without If-None-Match", status)
	}
}

func headerValue(s *openapi3.Schema, text string) any {
	if s.Type.Is("integer") {
		if _, err := strconv.ParseInt(text, 10, 64); err == nil {
			return json.Number(text)
		}
	}
	return text
}

func (x *exchange) checkBody(resp *http.Response, promise *openapi3.Response) {
	if len(promise.Content) == 0 {
		x.checkEmpty(resp)
		return
	}
	contentType := resp.Header.Get("Content-Type")
	media := promise.Content.Get(contentType)
	if media == nil {
		x.fault("the Content-Type is '%s'", contentType)
		return
	}
	switch kind, _, _ := mime.ParseMediaType(contentType); kind {
	case "application/json":
		raw, err := x.readBody(resp)
		if err != nil {
			x.fault("reading the body: %v", err)
			return
		}
		for _, m := range matchesJSON(media.Schema.Value, raw, openapi3.VisitAsResponse()) {
			x.fault("body: %s", m)
		}
	case "text/event-stream":
		if media.Extensions["x-events"] == nil {
			return // the document does not describe the events of this stream
		}
		resp.Body = newStream(x, media, resp.Body)
	}
}

func (x *exchange) checkEmpty(resp *http.Response) {
	var first [1]byte
	if n, _ := io.ReadFull(resp.Body, first[:]); n > 0 {
		x.fault("the response has a body, the document describes none for %d", resp.StatusCode)
		resp.Body = &body{Reader: io.MultiReader(bytes.NewReader(first[:]), resp.Body), Closer: resp.Body}
	}
}

// readBody reads the body, up to maxJSON bytes, and replaces it so that the caller can
// read it again.
func (x *exchange) readBody(resp *http.Response) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxJSON))
	resp.Body = &body{Reader: io.MultiReader(bytes.NewReader(raw), resp.Body), Closer: resp.Body}
	return raw, err
}

// body is a response body that consists of a Reader and a Closer.
type body struct {
	io.Reader
	io.Closer
}
