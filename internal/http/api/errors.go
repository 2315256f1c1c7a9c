package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// kinds contains the public type and the HTTP status of each kind of error.
var kinds = map[stint.Kind]struct {
	typ    string
	status int
}{
	stint.KindInternal:            {"api_error", http.StatusInternalServerError},
	stint.KindInvalid:             {"invalid_request_error", http.StatusBadRequest},
	stint.KindNotFound:            {"not_found_error", http.StatusNotFound},
	stint.KindConflict:            {"conflict_error", http.StatusConflict},
	stint.KindUnauthenticated:     {"authentication_error", http.StatusUnauthorized},
	stint.KindForbidden:           {"permission_error", http.StatusForbidden},
	stint.KindRateLimited:         {"rate_limit_error", http.StatusTooManyRequests},
	stint.KindMethodNotAllowed:    {"invalid_request_error", http.StatusMethodNotAllowed},
	stint.KindNotAcceptable:       {"invalid_request_error", http.StatusNotAcceptable},
	stint.KindGone:                {"gone_error", http.StatusGone},
	stint.KindTooLarge:            {"invalid_request_error", http.StatusRequestEntityTooLarge},
	stint.KindUnsupportedMedia:    {"invalid_request_error", http.StatusUnsupportedMediaType},
	stint.KindRangeNotSatisfiable: {"invalid_request_error", http.StatusRequestedRangeNotSatisfiable},
	stint.KindUnavailable:         {"api_error", http.StatusServiceUnavailable},
}

var errInternal = &stint.Error{
	Kind: stint.KindInternal, Code: stint.CodeInternal,
	Message: "Something went wrong on the server. Try again. If the error persists, send the X-Request-Id of this response to the operator.",
}

// errorBody is the JSON of an error response.
type errorBody struct {
	Error errorFields `json:"error"`
}

type errorFields struct {
	Type    string         `json:"type"`
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Param   string         `json:"param,omitempty"`
	Details []stint.Detail `json:"details,omitempty"`
	DocURL  string         `json:"docUrl"`
}

func unavailable(message string) *stint.Error {
	return &stint.Error{Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Message: message}
}

// publicError returns the error that the client receives. For an internal error, the
// message is general and contains no details.
func publicError(err error) *stint.Error {
	if e, ok := errors.AsType[*stint.Error](err); ok && e.Kind != stint.KindInternal {
		if _, known := kinds[e.Kind]; known {
			return e
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable("The server is overloaded and did not respond in time. Try again.")
	case errors.Is(err, store.ErrUnavailable):
		return unavailable("The server's database cannot be reached right now. Try again in a moment.")
	}
	return errInternal
}

func errorResponse(err error) *response {
	e := publicError(err)
	k := kinds[e.Kind]
	r := jsonResponse(k.status, errorBody{errorFields{k.typ, e.Code, e.Message, e.Param, e.Details, stint.ErrorDocURL(e.Code)}})
	switch {
	case e.Kind == stint.KindUnauthenticated:
		r.set("WWW-Authenticate", "Bearer")
	case e.Kind == stint.KindUnavailable, e.Kind == stint.KindRateLimited, e.Code == stint.CodeKeyInUse:
		r.set("Retry-After", "1")
	}
	return r
}

// fail responds with an error. It logs an error with a status of 500 or more,
// unless the client has cancelled the request.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		err = unavailable("The request was cancelled.")
	} else if kinds[publicError(err).Kind].status >= http.StatusInternalServerError {
		a.c.Log.LogAttrs(r.Context(), slog.LevelError, "request failed",
			slog.String("request", w.Header().Get(headerRequestID)),
			slog.String("method", r.Method), slog.String("route", routeOf(r)), slog.Any("error", err))
	}
	errorResponse(err).write(w)
}
