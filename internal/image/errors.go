package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	stint "github.com/stint-dev/stint"
)

// Errors of the package. registryError and pullError convert all except errClosed to
// messages for the user.
var (
	errTooLarge    = errors.New("more bytes than allowed")
	errTooMany     = errors.New("more entries than allowed")
	errStalled     = errors.New("the registry sent nothing for too long")
	errPlain       = errors.New("plain http is not allowed for this host")
	errCredentials = errors.New("reading registry credentials")
	errClosed      = errors.New("the image store is closed")
)

// imageError is a defect of an image. why completes the sentence "The image 'x' cannot
// be used: ".
type imageError struct {
	why   string
	cause error
}

func (f *imageError) Error() string { return f.why }
func (f *imageError) Unwrap() error { return f.cause }

func newImageError(format string, args ...any) error {
	return &imageError{why: fmt.Sprintf(format, args...)}
}

// invalid and unavailable return errors about an image. After an error of invalid the
// user must change something. After an error of unavailable a later attempt may
// succeed.
func invalid(cause error, format string, args ...any) *stint.Error {
	e := stint.InvalidParam(paramImage, format, args...)
	e.Cause = cause
	return e
}

func unavailable(cause error, format string, args ...any) *stint.Error {
	return &stint.Error{Kind: stint.KindUnavailable, Code: stint.CodeUnavailable, Param: paramImage, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// registryError returns a *stint.Error with the message for an error of a request to a
// registry.
func registryError(r Reference, err error) error {
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		return statusError(r, answer)
	}
	switch {
	case errors.Is(err, errCredentials):
		return unavailable(err, "The server cannot read its credentials for the registry %s. Ask its operator to log in to the registry again.", r.Registry)
	case errors.Is(err, errPlain):
		return unavailable(err, "The registry %s could not be reached over https for the image '%s'. Check the registry's name, or ask the operator to allow plain http for it.", r.Registry, r)
	case isUnreachable(err):
		return unavailable(err, "The registry %s could not be reached for the image '%s'. Check the registry's name, or try again later.", r.Registry, r)
	}
	return unavailable(err, "The registry %s did not answer with the image '%s' that was asked for. Check the image's name and digest, or push it again.", r.Registry, r)
}

func statusError(r Reference, answer *transport.Error) error {
	switch answer.StatusCode {
	case http.StatusNotFound:
		return invalid(answer, "The image '%s' does not exist. Check its name, tag and digest.", r)
	case http.StatusUnauthorized, http.StatusForbidden:
		return invalid(answer, "The registry %s refused access to the image '%s': it is private or does not exist. Check its name, and the server's credentials for the registry.", r.Registry, r)
	case http.StatusTooManyRequests:
		return unavailable(answer, "The registry %s limits how often images are pulled and refused '%s'. Try again later, or give the server credentials for the registry.", r.Registry, r)
	}
	return unavailable(answer, "The registry %s failed on the image '%s' with status %d. Try again later.", r.Registry, r, answer.StatusCode)
}

// isUnreachable reports whether err means that the registry did not answer or was
// temporarily unavailable. In this case the last known digest of a tag may be used.
func isUnreachable(err error) bool {
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		return answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests
	}
	if _, ok := errors.AsType[netError](err); ok {
		return true
	}
	return errors.Is(err, errStalled) || errors.Is(err, context.DeadlineExceeded)
}

// netError is implemented by network errors, including *url.Error.
type netError interface {
	error
	Timeout() bool
	Temporary() bool
}

// pullError returns a *stint.Error with the message for an error of a pull. It returns
// a *stint.Error unchanged, and wraps errors that a user cannot act on.
func (s *Store) pullError(r Reference, err error) error {
	if _, ok := errors.AsType[*stint.Error](err); ok {
		return err
	}
	if f, ok := errors.AsType[*imageError](err); ok {
		return invalid(err, "The image '%s' cannot be used: %s. Build it again or use another.", r, f.why)
	}
	switch {
	case errors.Is(err, errTooLarge):
		return invalid(err, "The image '%s' is larger than %s unpacked, the most that this server takes. Use a smaller image.", r, stint.Size(s.config.MaxBytes))
	case errors.Is(err, errTooMany):
		return invalid(err, "The image '%s' holds more than %d files and folders, the most that this server takes. Use a smaller image.", r, s.config.MaxEntries)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return unavailable(err, "The server's disk has no space for the image '%s'. Ask its operator to free some, or use a smaller image.", r)
	}
	return fmt.Errorf("pulling the image %s: %w", r, err)
}
