package client

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// The formats of DownloadAs.
const (
	TarGzip = "tar.gz"
	Zip     = "zip"
	TarZstd = "tar.zst" // made as it is sent: such a transfer cannot go on where it broke off
	Tar     = "tar"
)

// Download writes a version, or the current one when version is empty, to w as
// a tar.gz archive and returns its length. The address that the server names
// is asked without the token. A transfer that breaks off goes on where it
// stopped, for the same version always has the same bytes; w is written to
// once, in order. Where the server names the archive's SHA-256, another one is
// an error.
func (t *FileSets) Download(ctx context.Context, id, version string, w io.Writer) (int64, error) {
	return t.DownloadAs(ctx, id, version, "", w)
}

// DownloadAs is Download in one of the formats; "" is a tar.gz.
func (t *FileSets) DownloadAs(ctx context.Context, id, version, format string, w io.Writer) (int64, error) {
	if version == "" || version == "latest" {
		// Once: an attempt that goes on must not meet a version that came meanwhile.
		current, err := t.current(ctx, id)
		if err != nil {
			return 0, err
		}
		version = current
	}
	d := &transfer{t: t, id: id, version: version, format: format, w: w, sum: sha256.New()}
	for attempt := 1; ; attempt++ {
		before := d.written
		err := d.attempt(ctx)
		if err == nil {
			return d.written, d.verify()
		}
		if d.written > before {
			attempt = 1
		}
		_, broken := errors.AsType[*brokenError](err)
		resume := broken && (d.written == 0 || d.tag != "") || d.written == 0 && worthRepeating(ctx, err)
		if ctx.Err() != nil || !resume || attempt >= t.c.attempts || t.c.pause(ctx, attempt, err) != nil {
			return d.written, downloadError(id, err)
		}
	}
}

// current is the ID of the current version, or empty if there is none.
func (t *FileSets) current(ctx context.Context, id string) (string, error) {
	tree, err := t.Get(ctx, id)
	if err != nil || tree.CurrentVersionID == nil {
		return "", err
	}
	return *tree.CurrentVersionID, nil
}

// transfer is a download under way, over several answers if need be.
type transfer struct {
	t                   *FileSets
	id, version, format string
	w                   io.Writer
	written             int64
	sum                 hash.Hash // of what was written
	tag                 string    // of the entity that the first answer named; a part must be of it
	want                string    // Repr-Digest, where an answer had one
}

// verify holds what was written to what the server said of the whole.
func (d *transfer) verify() error {
	for member := range strings.SplitSeq(d.want, ",") {
		encoded, ok := strings.CutPrefix(strings.TrimSpace(member), "sha-256=:")
		if !ok {
			continue
		}
		if got := base64.StdEncoding.EncodeToString(d.sum.Sum(nil)); got+":" != encoded {
			return fmt.Errorf("download %s: what came is not what the server has: its SHA-256 is %s, not %s", d.id, got, strings.TrimSuffix(encoded, ":"))
		}
	}
	return nil
}

// downloadError names the tree, unless the server has told what is wrong.
func downloadError(id string, err error) error {
	if answer, ok := errors.AsType[*Error](err); ok {
		return answer
	}
	return fmt.Errorf("download %s: %w", id, err)
}

// attempt transfers what is missing.
func (d *transfer) attempt(ctx context.Context) error {
	location, err := d.t.location(ctx, d.id, d.version, d.format)
	if err != nil {
		return err
	}
	res, err := d.t.fetch(ctx, location, d.written, d.tag)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch {
	case d.written == 0 && res.StatusCode != http.StatusOK:
		return fmt.Errorf("the server answered %s instead of the archive", res.Status)
	case d.written > 0 && res.StatusCode == http.StatusOK:
		// Another place has the archive under another tag, or the server knows
		// no parts: what is here already comes again.
		if _, err := io.CopyN(io.Discard, res.Body, d.written); err != nil {
			return &brokenError{err}
		}
	case d.written > 0 && res.StatusCode != http.StatusPartialContent:
		return errors.New("the transfer broke off and the server cannot resume it")
	}
	if etag := res.Header.Get("ETag"); !strings.HasPrefix(etag, "W/") {
		d.tag = etag
	}
	if digest := res.Header.Get("Repr-Digest"); digest != "" {
		d.want = digest
	}
	n, err := io.Copy(io.MultiWriter(writeOnly{d.w}, d.sum), res.Body)
	d.written += n
	if err == nil {
		return nil
	}
	if failed, ok := errors.AsType[*writeError](err); ok {
		return failed.cause
	}
	return &brokenError{err}
}

// location returns the URL of the archive.
func (t *FileSets) location(ctx context.Context, id, version, format string) (string, error) {
	q := url.Values{}
	set(q, "versionId", version)
	set(q, "format", format)
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
func (t *FileSets) fetch(ctx context.Context, location string, offset int64, tag string) (*http.Response, error) {
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

// writeError distinguishes a failed destination from a broken connection.
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
