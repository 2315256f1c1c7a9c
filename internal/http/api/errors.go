package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// kinds is what each kind of error becomes.
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
	stint.KindTooLarge:            {"invalid_request_error", http.StatusRequestEntityTooLarge},
	stint.KindUnsupportedMedia:    {"invalid_request_error", http.StatusUnsupportedMediaType},
	stint.KindRangeNotSatisfiable: {"invalid_request_error", http.StatusRequestedRangeNotSatisfiable},
	stint.KindUnavailable:         {"api_error", http.StatusServiceUnavailable},
}

var errInternal = &stint.Error{
	Kind: stint.KindInternal, Code: stint.CodeInternal,
	Message: "Something went wrong on the server. Try again; if it stays, tell the operator the X-Request-Id of this answer.",
}

// errorBody is the JSON of every error answer.
type errorBody struct {
	Error errorFields `json:"error"`
}

type errorFields struct {
	Type    string         `json:"type"`
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Param   string         `json:"param,omitempty"`
	Details []stint.Detail `json:"details,omitempty"`
}

// publicError is what the user may know of err: itself when it was meant for
// users, else that something went wrong.
func publicError(err error) *stint.Error {
	if e, ok := errors.AsType[*stint.Error](err); ok && e.Kind != stint.KindInternal {
		if _, known := kinds[e.Kind]; known {
			return e
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &stint.Error{Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Message: "The server was too busy to answer in time. Try again."}
	}
	if errors.Is(err, store.ErrUnavailable) {
		return &stint.Error{Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Message: "The server's database cannot be reached right now. Try again in a moment."}
	}
	return errInternal
}

// errorReply is the answer that tells err.
func errorReply(err error) *reply {
	e := publicError(err)
	k := kinds[e.Kind]
	r := &reply{status: k.status, body: encode(errorBody{errorFields{k.typ, e.Code, e.Message, e.Param, e.Details}})}
	switch e.Kind {
	case stint.KindUnauthenticated:
		r.set("WWW-Authenticate", "Bearer")
	case stint.KindUnavailable, stint.KindRateLimited:
		r.set("Retry-After", "1")
	}
	if e.Code == stint.CodeKeyInUse {
		r.set("Retry-After", "1")
	}
	return r
}

// fail answers with an error and logs what the user is not told.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		err = &stint.Error{Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Message: "The request was given up."}
	} else if kinds[publicError(err).Kind].status >= http.StatusInternalServerError {
		a.c.Log.LogAttrs(r.Context(), slog.LevelError, "request failed",
			slog.String("request", w.Header().Get(headerRequestID)),
			slog.String("method", r.Method), slog.String("route", routeOf(r)), slog.Any("error", err))
	}
	errorReply(err).write(w)
}

// encode writes v as JSON. What the API answers can always be written. It is
// escaped for HTML too: a browser that takes an answer for a page runs nothing
// of it.
func encode(v any) []byte {
	if done, ok := v.(encoded); ok {
		return done
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("httpapi: encode an answer: " + err.Error())
	}
	return append(b, '\n')
}

// encoded is JSON that encode wrote.
type encoded []byte
