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

// Error is an unsuccessful response of the server. Type and Code are for
// programs (the constants stint.Code…), Message is a sentence for people.
type Error struct {
	Status     int            // of HTTP
	Type       string         // such as not_found_error
	Code       string         // such as resource_not_found
	Message    string         // for people
	Param      string         // what was wrong, "volumes.data.path"; may be empty
	Details    []stint.Detail // when several things are wrong
	DocURL     string         // may be empty
	RequestID  string         // to find the request in the server's log
	RetryAfter time.Duration  // 0 when the server asked for no pause
}

// Error gives the message, and the request's ID where the fault is the server's.
func (e *Error) Error() string {
	if e.Status >= 500 && e.RequestID != "" {
		return fmt.Sprintf("%s (status %d, request %s)", e.Message, e.Status, e.RequestID)
	}
	return e.Message
}

// IsCode reports whether err is an answer of the server with the code.
func IsCode(err error, code string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}

// maxErrorBody limits the bytes read of an unsuccessful response.
const maxErrorBody = 1 << 20

// errorOf reads and closes an unsuccessful response.
func errorOf(res *http.Response) *Error {
	defer res.Body.Close()
	e := &Error{Status: res.StatusCode, RequestID: res.Header.Get("X-Request-Id"), RetryAfter: retryAfter(res.Header)}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	var answer struct {
		Error struct {
			Type, Code, Message, Param, DocURL string
			Details                            []stint.Detail
		}
	}
	if err == nil && json.Unmarshal(body, &answer) == nil && answer.Error.Message != "" {
		a := answer.Error
		e.Type, e.Code, e.Message, e.Param, e.Details, e.DocURL = a.Type, a.Code, a.Message, a.Param, a.Details, a.DocURL
		return e
	}
	e.Type, e.Code = typeOf(res.StatusCode)
	e.Message = fmt.Sprintf("The server answered %s. Is a Stint server at %s?", strings.TrimSpace(res.Status), hostOf(res))
	return e
}

// typeOf stands in for what the body of a foreign answer does not tell.
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

// passing reports whether trying the same again may help.
func (e *Error) passing() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusConflict:
		return e.Code == stint.CodeKeyInUse
	}
	return e.Status == http.StatusInternalServerError
}
