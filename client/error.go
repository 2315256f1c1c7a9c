package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint"
)

// Error is an error response of the server. Type and Code are for programs; the values
// of Code are the constants stint.Code…. Message is a sentence for people.
type Error struct {
	Status     int            `json:"-"`    // HTTP status
	Type       string         `json:"type"` // such as not_found_error
	Code       string         `json:"code"` // such as resource_not_found
	Message    string         `json:"message"`
	Param      string         `json:"param"`   // the wrong parameter, such as volumes.data.path; may be empty
	Details    []stint.Detail `json:"details"` // set if several parameters are wrong
	DocURL     string         `json:"docUrl"`  // may be empty
	RequestID  string         `json:"-"`       // identifies the request in the server's log
	RetryAfter time.Duration  `json:"-"`       // pause before a retry that the server requested; 0 if none
}

// Error returns the message. If the status is 500 or higher and the request's ID is
// known, Error adds both.
func (e *Error) Error() string {
	if e.Status >= 500 && e.RequestID != "" {
		return fmt.Sprintf("%s (status %d, request %s)", e.Message, e.Status, e.RequestID)
	}
	return e.Message
}

// IsCode reports whether err is an error response with the code.
func IsCode(err error, code string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}

// maxErrorBody is the maximum number of bytes to read from an error response.
const maxErrorBody = 1 << 20

// errorOf reads the body of an error response, closes it, and returns the error. If the
// body is not an error of a Stint server, errorOf derives the error from the status.
func errorOf(res *http.Response) *Error {
	defer res.Body.Close()
	e := &Error{Status: res.StatusCode, RequestID: res.Header.Get("X-Request-Id"), RetryAfter: retryAfter(res.Header)}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	response := struct {
		Error *Error `json:"error"`
	}{e}
	if err == nil && json.Unmarshal(body, &response) == nil && e.Message != "" {
		return e
	}
	e.Type, e.Code = typeOf(res.StatusCode)
	e.Message = fmt.Sprintf("The server responded %s. Is a Stint server at %s?", strings.TrimSpace(res.Status), hostOf(res))
	return e
}

// typeOf returns the error type and code for the HTTP status of a response that is not
// from a Stint server.
func typeOf(status int) (kind, code string) {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error", stint.CodeInvalidAPIKey
	case status == http.StatusNotFound:
		return "not_found_error", stint.CodeResourceNotFound
	case status == http.StatusTooManyRequests:
		return "rate_limit_error", stint.CodeRateLimitExceeded
	case status >= 500:
		return "api_error", stint.CodeUnavailable
	}
	return "invalid_request_error", stint.CodeInvalidParameter
}

func hostOf(res *http.Response) string {
	if res.Request == nil || res.Request.URL == nil {
		return "that address"
	}
	return res.Request.URL.Scheme + "://" + res.Request.URL.Host
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 24*3600)) * time.Second
}

// isTemporary reports whether a repetition of the request may succeed later.
func (e *Error) isTemporary() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusConflict:
		return e.Code == stint.CodeKeyInUse
	}
	return e.Status == http.StatusInternalServerError
}
