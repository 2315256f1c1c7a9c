package stint

import (
	"errors"
	"fmt"
	"strings"
)

// Kind sorts errors by what the caller can do about them. The HTTP status and
// the public error type follow from it.
type Kind int

// The kinds of error that reach a user.
const (
	KindInternal            Kind = iota // our fault; the message is replaced before it leaves
	KindInvalid                         // a parameter, a body or a state is wrong
	KindNotFound                        // no such thing in the caller's organisation
	KindConflict                        // it clashes with what exists
	KindUnauthenticated                 // the token is missing or no good
	KindForbidden                       // the token may not do this
	KindRateLimited                     // too much at once
	KindMethodNotAllowed                // the path exists, the verb does not
	KindNotAcceptable                   // no representation fits Accept
	KindTooLarge                        // the request exceeds a limit
	KindUnsupportedMedia                // the Content-Type is not understood
	KindRangeNotSatisfiable             // a Range that lies outside the content
	KindUnavailable                     // try again later
)

// The codes of the public error body.
const (
	CodeInvalidAPIKey         = "invalid_api_key"
	CodeInvalidParameter      = "invalid_parameter"
	CodeMissingParameter      = "missing_parameter"
	CodeInvalidState          = "invalid_state"
	CodeResourceNotFound      = "resource_not_found"
	CodeResourceAlreadyExists = "resource_already_exists"
	CodeInsufficientScope     = "insufficient_scope"
	CodeOriginNotAllowed      = "origin_not_allowed"
	CodeRateLimitExceeded     = "rate_limit_exceeded"
	CodeQueueFull             = "queue_full"
	CodeMethodNotAllowed      = "method_not_allowed"
	CodeNotAcceptable         = "not_acceptable"
	CodeRequestTooLarge       = "request_too_large"
	CodeUnsupportedMediaType  = "unsupported_media_type"
	CodeRangeNotSatisfiable   = "range_not_satisfiable"
	CodeKeyReused             = "idempotency_key_reused"
	CodeKeyInUse              = "idempotency_key_in_use"
	CodeVersionConflict       = "version_conflict"
	CodeChunksMissing         = "chunks_missing"
	CodeQuotaExceeded         = "quota_exceeded"
	CodeUnavailable           = "unavailable"
	CodeInternal              = "internal_error"
)

// Error is what went wrong, in a form fit for a user: a Kind and Code for
// programs, a Message that tells a person what to do, and Param, the path of
// the offending member ("volumes.data.path"), where there is one.
type Error struct {
	Kind    Kind
	Code    string
	Message string
	Param   string
	Details []Detail
	Cause   error // for the log; never shown to a user
}

// Detail is one of several faults of the same request.
type Detail struct {
	Param   string `json:"param,omitempty"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error gives the code and the message, and the cause where one is known.
func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Code + ": " + e.Message + ": " + e.Cause.Error()
	}
	return e.Code + ": " + e.Message
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// InvalidParam says that the value of param is wrong.
func InvalidParam(param, format string, args ...any) *Error {
	return &Error{Kind: KindInvalid, Code: CodeInvalidParameter, Param: param, Message: fmt.Sprintf(format, args...)}
}

// MissingParam says that param is required.
func MissingParam(param, format string, args ...any) *Error {
	return &Error{Kind: KindInvalid, Code: CodeMissingParameter, Param: param, Message: fmt.Sprintf(format, args...)}
}

// InvalidState says that the resource's state forbids the operation.
func InvalidState(format string, args ...any) *Error {
	return &Error{Kind: KindInvalid, Code: CodeInvalidState, Message: fmt.Sprintf(format, args...)}
}

// NotFound says that the caller's organisation has no such thing. The asked
// name stands in the message, shortened when it is long.
func NotFound(noun, asked string) *Error {
	return &Error{
		Kind: KindNotFound, Code: CodeResourceNotFound,
		Message: fmt.Sprintf("No such %s: '%s'.", noun, Excerpt(asked, 128)),
	}
}

// AlreadyExists says that the name is taken.
func AlreadyExists(noun, name string) *Error {
	return &Error{
		Kind: KindConflict, Code: CodeResourceAlreadyExists, Param: "name",
		Message: fmt.Sprintf("The %s '%s' already exists. Choose another name.", noun, Excerpt(name, 128)),
	}
}

// JoinErrors folds the faults of one request into one error: itself when there
// is one, else the first with all of them as Details. It is nil for none.
func JoinErrors(faults []*Error) error {
	switch len(faults) {
	case 0:
		return nil
	case 1:
		return faults[0]
	}
	all := *faults[0]
	messages := make([]string, len(faults))
	for i, f := range faults {
		messages[i] = f.Message
		all.Details = append(all.Details, Detail{Param: f.Param, Code: f.Code, Message: f.Message})
	}
	all.Message = strings.Join(messages, " ")
	return &all
}

// KindOf reads the kind of err; an error that is no *Error is KindInternal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return KindInternal
}

// Excerpt returns the first n bytes of s for an error message, without control
// characters and invalid UTF-8. An ellipsis marks that text is missing.
func Excerpt(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
