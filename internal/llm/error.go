package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Error is the reason why a model did not answer.
type Error struct {
	Status    int    // HTTP status; 0 if there was no response, or if reading a 2xx response failed or found an error
	Code      string // the server's error code, or empty
	Message   string
	Retryable bool // the same request may succeed later
	// RetryAfter is the server's requested delay, or 0.
	RetryAfter time.Duration
}

// Error returns the status, the code, and the message.
func (e *Error) Error() string {
	text := e.Message
	if e.Code != "" {
		text = e.Code + ": " + text
	}
	if e.Status != 0 {
		text = strconv.Itoa(e.Status) + " " + text
	}
	return text
}

// Fault is a class of errors that have the same remedy.
type Fault string

// The faults.
const (
	FaultKey         Fault = "key"         // the key was refused
	FaultModel       Fault = "model"       // the model does not exist
	FaultAddress     Fault = "address"     // the endpoint does not implement the dialect
	FaultContext     Fault = "context"     // the conversation is too long for the model
	FaultRate        Fault = "rate"        // too many requests
	FaultQuota       Fault = "quota"       // the account has no credit
	FaultRequest     Fault = "request"     // the request was refused
	FaultServer      Fault = "server"      // the server failed
	FaultUnreachable Fault = "unreachable" // the connection could not be made or was interrupted
)

// codeWebPage is the value of Error.Code for a 2xx response that is HTML.
const codeWebPage = "web_page"

// Fault returns the class of the error.
func (e *Error) Fault() Fault {
	text := strings.ToLower(e.Code + " " + e.Message)
	says := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	switch {
	case says("cannot be reached", "out of reach"): // texts of the model proxy's errors
		return FaultUnreachable
	case says("insufficient_quota", "billing_error", "credit balance is too low") || e.Status == http.StatusPaymentRequired:
		return FaultQuota
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden || says("invalid_api_key", "authentication_error"):
		return FaultKey
	case e.Status == http.StatusTooManyRequests || says("rate_limit"):
		return FaultRate
	case e.Status == http.StatusRequestEntityTooLarge || says("context_length_exceeded", "prompt is too long", "maximum context length", "context window", "context size", "context length"):
		return FaultContext
	case says("model_not_found", "no such model", "unknown model", "model not found") || e.Status == http.StatusNotFound && says("model"):
		return FaultModel
	case e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed || e.Code == codeWebPage:
		return FaultAddress
	case e.Status >= 400 && e.Status < 500:
		return FaultRequest
	case e.Status == 0 && e.Code == "":
		return FaultUnreachable
	}
	return FaultServer
}

// refusal returns the error for a response with a status other than 2xx.
func refusal(resp *http.Response) *Error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // after an error, the bytes before it are used
	e := failure(raw)
	e.Status = resp.StatusCode
	if e.Message == "" {
		e.Message = http.StatusText(resp.StatusCode)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		e.Retryable = e.Fault() != FaultQuota
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		e.Retryable = true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
	default:
		e.Retryable = resp.StatusCode >= 500
	}
	if said, err := strconv.ParseBool(resp.Header.Get("X-Should-Retry")); err == nil {
		e.Retryable = said
	}
	e.RetryAfter = retryAfter(resp.Header)
	return e
}

// failure returns the error in a JSON body. It supports the different forms that servers
// use. Plain text becomes the message.
func failure(raw []byte) *Error {
	e := &Error{}
	var body struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
		Code    any             `json:"code"`
	}
	if json.Unmarshal(raw, &body) != nil {
		if text := strings.TrimSpace(string(raw)); !strings.HasPrefix(text, "<") {
			e.Message = clip(text)
		}
		return e
	}
	var inner struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Code    any    `json:"code"`
	}
	var text string
	switch {
	case json.Unmarshal(body.Error, &inner) == nil && inner.Message+inner.Type != "":
		e.Code, e.Message = inner.Type, inner.Message
		if code, ok := inner.Code.(string); ok && code != "" {
			e.Code = code
		}
	case json.Unmarshal(body.Error, &text) == nil && text != "":
		e.Message = text
	case body.Message != "":
		e.Message = body.Message
		e.Code, _ = body.Code.(string)
	case len(body.Detail) > 0:
		e.Message = strings.Trim(string(body.Detail), `"`)
	}
	e.Message = clip(e.Message)
	return e
}

// streamed returns the error for an error event of a stream.
func streamed(code, message string) *Error {
	code, message = cmp.Or(code, "error"), cmp.Or(message, "The model failed.")
	passing := []string{"overloaded", "api_error", "rate_limit", "server_error", "internal", "timeout", "unavailable", "vector_store_timeout"}
	return &Error{
		Code: code, Message: clip(message),
		Retryable: slices.ContainsFunc(passing, func(p string) bool { return strings.Contains(code, p) }),
	}
}

// brokenOff returns the error for a stream that ended early.
func brokenOff() *Error {
	return &Error{Message: "the connection ended before the answer did", Retryable: true}
}

// unreadable returns the error for an event that cannot be decoded.
func unreadable(err error) *Error {
	return &Error{Code: "unreadable", Message: fmt.Sprintf("The endpoint's answer cannot be read: %v.", err)}
}

// retryAfter returns the delay in a response's Retry-After-Ms or Retry-After header, or
// 0.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	value := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	at, err := http.ParseTime(value)
	now, err2 := http.ParseTime(h.Get("Date"))
	if err != nil || err2 != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// clip returns a server's message, cut to 600 bytes.
func clip(s string) string {
	const most = 600
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
