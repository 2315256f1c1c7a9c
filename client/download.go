package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Download writes a version, or the current one when version is empty, to w as
// a tar.gz archive and returns its length. The address that the server names
// is asked without the token. A transfer that breaks off goes on where it
// stopped, for the same version always has the same bytes; w is written to
// once, in order.
func (t *Trees) Download(ctx context.Context, id, version string, w io.Writer) (int64, error) {
	var written int64
	var tag string
	for attempt := 1; ; attempt++ {
		n, err := t.download(ctx, id, version, w, written, &tag)
		written += n
		if err == nil {
			return written, nil
		}
		if n > 0 {
			attempt = 1
		}
		_, broken := errors.AsType[*brokenError](err)
		resume := broken && (written == 0 || tag != "") || written == 0 && worthRepeating(ctx, err)
		if ctx.Err() != nil || !resume || attempt >= t.c.attempts || t.c.pause(ctx, attempt, err) != nil {
			return written, downloadError(id, err)
		}
	}
}

// downloadError names the tree, unless the server has told what is wrong.
func downloadError(id string, err error) error {
	if answer, ok := errors.AsType[*Error](err); ok {
		return answer
	}
	return fmt.Errorf("download %s: %w", id, err)
}

// download transfers the bytes from an offset on. tag is the entity that the
// first answer named; a later one must be the same.
func (t *Trees) download(ctx context.Context, id, version string, w io.Writer, offset int64, tag *string) (int64, error) {
	location, err := t.location(ctx, id, version)
	if err != nil {
		return 0, err
	}
	res, err := t.fetch(ctx, location, offset, *tag)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if offset > 0 && res.StatusCode != http.StatusPartialContent {
		return 0, errors.New("the transfer broke off and the server cannot resume it")
	}
	if offset == 0 && res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the server answered %s instead of the archive", res.Status)
	}
	if etag := res.Header.Get("ETag"); !strings.HasPrefix(etag, "W/") {
		*tag = etag
	}
	n, err := io.Copy(writeOnly{w}, res.Body)
	if err == nil {
		return n, nil
	}
	if failed, ok := errors.AsType[*writeError](err); ok {
		return n, failed.cause
	}
	return n, &brokenError{err}
}

// location asks where the archive lies.
func (t *Trees) location(ctx context.Context, id, version string) (string, error) {
	q := url.Values{}
	set(q, "versionId", version)
	res, err := t.c.retry(ctx, call{method: http.MethodGet, path: t.path(id, "download"), query: q})
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	target, err := res.Location()
	if res.StatusCode != http.StatusFound || err != nil {
		return "", fmt.Errorf("the server answered %s instead of the archive's address", res.Status)
	}
	return target.String(), nil
}

// fetch opens the archive without a token.
func (t *Trees) fetch(ctx context.Context, location string, offset int64, tag string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return nil, fmt.Errorf("the archive's address: %w", err)
	}
	req.Header.Set("User-Agent", t.c.userAgent)
	req.Header.Set("Accept-Encoding", "identity") // the archive's own bytes and length
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		req.Header.Set("If-Range", tag)
	}
	res, err := t.c.send(req)
	if err != nil {
		if _, ok := errors.AsType[*sendError](err); ok && offset > 0 {
			return nil, &brokenError{err}
		}
		return nil, err
	}
	return res, nil
}

// writeError tells a failed destination from a broken connection.
type writeError struct{ cause error }

func (e *writeError) Error() string { return e.cause.Error() }

type writeOnly struct{ w io.Writer }

func (w writeOnly) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		err = &writeError{err}
	}
	return n, err
}
