package stint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind classifies errors by what the caller can do about them. It determines the
// HTTP status and the public error type.
type Kind int

// The kinds of errors that users see.
const (
	KindInternal            Kind = iota // a fault of the server; users see a general message
	KindInvalid                         // a parameter, a body, or a state is wrong
	KindNotFound                        // the resource does not exist in the caller's organisation
	KindConflict                        // the request conflicts with the state of a resource
	KindUnauthenticated                 // the token is missing or invalid
	KindForbidden                       // the token does not permit the operation
	KindRateLimited                     // too many requests
	KindMethodNotAllowed                // the path does not support the method
	KindNotAcceptable                   // the response has no media type that Accept allows
	KindTooLarge                        // the request exceeds a limit
	KindUnsupportedMedia                // the Content-Type is not supported
	KindGone                            // the resource existed, but does not exist any more
	KindRangeNotSatisfiable             // the Range is outside of the content
	KindUnavailable                     // a temporary fault; the client can try again later
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
	CodeLinkExpired           = "link_expired"
	CodeQuotaExceeded         = "quota_exceeded"
	CodeUnavailable           = "unavailable"
	CodeInternal              = "internal_error"
)

// DocsURL is the address of the documents, before the name of one.
const DocsURL = "https://github.com/stint-dev/stint/blob/main/docs/"

// ErrorDocURL returns the address of the description of an error code or a status reason.
func ErrorDocURL(code string) string { return DocsURL + "errors.md#" + code }

// Error is an error for users. Kind and Code are for programs. Message says what
// happened and what to do. Param is the path of the invalid parameter, such as
// "volumes.data.path", or empty. Details is set if a request has several errors.
type Error struct {
	Kind    Kind
	Code    string
	Message string
	Param   string
	Details []Detail
	Cause   error // for the log; never shown to a user
}

// Detail is one of several errors of a request.
type Detail struct {
	Param   string `json:"param,omitempty"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Warning is a remark about an accepted request: Param is the path of the setting, and
// Message says what may not work and what to do.
type Warning struct {
	Param   string `json:"param"`
	Message string `json:"message"`
}

// Error returns the code and the message, and the cause if there is one.
func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Code + ": " + e.Message + ": " + e.Cause.Error()
	}
	return e.Code + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// InvalidParam returns the error of a parameter with an invalid value.
func InvalidParam(param, format string, args ...any) *Error {
	return &Error{Kind: KindInvalid, Code: CodeInvalidParameter, Param: param, Message: fmt.Sprintf(format, args...)}
}

// MissingParam returns the error of a required parameter without a value.
func MissingParam(param, format string, args ...any) *Error {
	return &Error{Kind: KindInvalid, Code: CodeMissingParameter, Param: param, Message: fmt.Sprintf(format, args...)}
}

// InvalidState returns the error of an operation that the resource's state does
// not allow.
func InvalidState(format string, args ...any) *Error {
	return &Error{Kind: KindInvalid, Code: CodeInvalidState, Message: fmt.Sprintf(format, args...)}
}

// NotFound returns the error of a resource that does not exist in the caller's
// organisation. The message contains the requested name, shortened if it is long.
func NotFound(noun, name string) *Error {
	return &Error{
		Kind: KindNotFound, Code: CodeResourceNotFound,
		Message: fmt.Sprintf("No such %s: '%s'.", noun, Excerpt(name, 128)),
	}
}

// AlreadyExists returns the error of a name that is in use.
func AlreadyExists(noun, name string) *Error {
	return &Error{
		Kind: KindConflict, Code: CodeResourceAlreadyExists, Param: "name",
		Message: fmt.Sprintf("The %s '%s' already exists. Choose another name.", noun, Excerpt(name, 128)),
	}
}

// JoinErrors joins the errors that are not nil. It returns nil if all are nil, and
// a single error unchanged. Otherwise it returns a copy of the first error with the
// messages of all errors as Message and all errors as Details.
func JoinErrors(errs ...*Error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(e *Error) bool { return e == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	all := *errs[0]
	messages := make([]string, len(errs))
	for i, e := range errs {
		messages[i] = e.Message
		all.Details = append(all.Details, Detail{Param: e.Param, Code: e.Code, Message: e.Message})
	}
	all.Message = strings.Join(messages, " ")
	return &all
}

// KindOf returns the kind of err, or KindInternal if err neither is nor wraps an
// *Error.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return KindInternal
}

// Excerpt returns at most the first n bytes of s, for an error message. ASCII
// control characters and invalid UTF-8 are replaced by "?" before s is cut. If s is
// cut, "…" is appended.
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
