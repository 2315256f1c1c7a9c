package s3

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"
	"github.com/stint-dev/stint/internal/blob"
)

// explain translates the error of a request into an error of package blob, or into
// an error with a message that says what the operator can do. If ctx, the caller's
// context, is done, explain returns its cause.
func (s *Store) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errNoCredentials):
		return errNoCredentials
	}
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("the certificate of the storage at %s is not signed by an authority that this machine trusts; name a file with the authority in SSL_CERT_FILE: %w", s.Endpoint(), unknown)
	}
	response, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return fmt.Errorf("the storage at %s: %w", s.Endpoint(), err)
	}
	return s.translate(response)
}

// translate returns the error for a response of the server.
func (s *Store) translate(a minio.ErrorResponse) error {
	switch a.Code {
	case minio.NoSuchKey:
		return blob.ErrNotFound
	case minio.NoSuchBucket:
		return fmt.Errorf("the storage at %s has no bucket '%s'; create it, or name another: %w", s.Endpoint(), s.bucket, a)
	case "AccessDenied", "AllAccessDisabled", "AccountProblem":
		return fmt.Errorf("the storage at %s denies access to the bucket '%s'; its credentials need s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload, s3:ListBucket and s3:ListBucketMultipartUploads: %w", s.Endpoint(), s.bucket, a)
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidClientTokenId", "InvalidToken", "ExpiredToken":
		return fmt.Errorf("the storage at %s does not accept the credentials; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or the credentials file: %w", s.Endpoint(), a)
	case "RequestTimeTooSkewed", "RequestExpired", "RequestNotReadYet":
		return fmt.Errorf("the clock of this machine differs too much from that of the storage at %s; set it by NTP: %w", s.Endpoint(), a)
	case "AuthorizationHeaderMalformed", "InvalidRegion", "PermanentRedirect", "IllegalLocationConstraintException", "TemporaryRedirect":
		return s.wrongRegion(a)
	}
	return fmt.Errorf("the storage at %s answered %s (%d): %w", s.Endpoint(), a.Code, a.StatusCode, a)
}

func (s *Store) wrongRegion(a minio.ErrorResponse) error {
	right := "its region"
	if a.Region != "" {
		right = "region=" + a.Region
	}
	return fmt.Errorf("the bucket '%s' is in another region than was asked for at %s; name %s in the storage's URL: %w", s.bucket, s.Endpoint(), right, a)
}

// isRefused reports whether err means that the server rejected the request without
// effect, for a reason other than an existing object or a concurrent writer.
func isRefused(err error) bool {
	a, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && a.StatusCode >= 400 && a.StatusCode < 500 && !isTaken(err) && !isConflict(err)
}

// isTaken reports whether err means that an object with the name exists, or that the
// multipart upload does not exist any more.
func isTaken(err error) bool {
	a, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && (a.StatusCode == http.StatusPreconditionFailed || a.Code == minio.PreconditionFailed || a.Code == "NoSuchUpload")
}

// isConflict reports whether err means that another request is writing the same object.
func isConflict(err error) bool {
	a, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && a.StatusCode == http.StatusConflict
}
