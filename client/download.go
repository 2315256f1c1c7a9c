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

// The archive formats that DownloadAs accepts.
const (
	TarGzip = "tar.gz"
	Zip     = "zip"
	TarZstd = "tar.zst" // created during the transfer, which therefore cannot be resumed
	Tar     = "tar"
)

// Download writes a version of the artifact or volume id to w as a tar.gz archive and
// returns the number of bytes written. The version "" or "latest" is the current one.
// The request for the archive does not contain the API token. If the connection breaks,
// Download resumes the transfer; each byte is written to w once. If the server sends the
// SHA-256 of the archive, Download verifies it.
func (t *FileSets) Download(ctx context.Context, id, version string, w io.Writer) (int64, error) {
	return t.DownloadAs(ctx, id, version, "", w)
}

// DownloadAs is like Download, but the archive has the given format; "" is tar.gz.
func (t *FileSets) DownloadAs(ctx context.Context, id, version, format string, w io.Writer) (int64, error) {
	if version == "" || version == "latest" {
		// Resolve the version once, so that all attempts download the same one.
		current, err := t.current(ctx, id)
		if err != nil {
			return 0, err
		}
		version = current
	}
	d := &download{t: t, id: id, version: version, format: format, w: w, sum: sha256.New()}
	for attempt := 1; ; attempt++ {
		before := d.written
		err := d.attempt(ctx)
		if err == nil {
			return d.written, d.verify()
		}
		if d.written > before {
			attempt = 1
		}
		_, broken := errors.AsType[*sendError](err)
		resume := broken && (d.written == 0 || d.tag != "") || d.written == 0 && isTemporary(ctx, err)
		if ctx.Err() != nil || !resume || attempt >= t.c.attempts || t.c.pause(ctx, attempt, err) != nil {
			return d.written, downloadError(id, err)
		}
	}
}

// current returns the ID of the current version of the file set id, or "" if the file
// set does not have a version.
func (t *FileSets) current(ctx context.Context, id string) (string, error) {
	fileSet, err := t.Get(ctx, id)
	if err != nil || fileSet.CurrentVersionID == nil {
		return "", err
	}
	return *fileSet.CurrentVersionID, nil
}

// download is a download in progress, over one or more connections.
type download struct {
	t                   *FileSets
	id, version, format string
	w                   io.Writer
	written             int64
	sum                 hash.Hash // SHA-256 of the written bytes
	tag                 string    // ETag of the last response without a weak ETag; may be empty
	digest              string    // Repr-Digest of the last response with this header
}

// verify returns an error if the SHA-256 of the written bytes differs from the digest
// that the server sent. Without such a digest it returns nil.
func (d *download) verify() error {
	for member := range strings.SplitSeq(d.digest, ",") {
		encoded, ok := strings.CutPrefix(strings.TrimSpace(member), "sha-256=:")
		if !ok {
			continue
		}
		if got := base64.StdEncoding.EncodeToString(d.sum.Sum(nil)); got+":" != encoded {
			return fmt.Errorf("download %s: the received archive is not that of the server: its SHA-256 is %s, not %s", d.id, got, strings.TrimSuffix(encoded, ":"))
		}
	}
	return nil
}

// downloadError adds the ID of the file set to err, unless err is an error response.
func downloadError(id string, err error) error {
	if response, ok := errors.AsType[*Error](err); ok {
		return response
	}
	return fmt.Errorf("download %s: %w", id, err)
}

// attempt transfers the remaining bytes over one connection.
func (d *download) attempt(ctx context.Context) error {
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
		return fmt.Errorf("the server responded %s instead of the archive", res.Status)
	case d.written > 0 && res.StatusCode == http.StatusOK:
		// The ETag has changed, or the server does not support ranges, so the response
		// is the whole archive. Skip the bytes that were written already.
		if _, err := io.CopyN(io.Discard, res.Body, d.written); err != nil {
			return d.t.c.sendError(err)
		}
	case d.written > 0 && res.StatusCode != http.StatusPartialContent:
		return errors.New("the connection broke and the server cannot resume the transfer")
	}
	if etag := res.Header.Get("ETag"); !strings.HasPrefix(etag, "W/") {
		d.tag = etag
	}
	if digest := res.Header.Get("Repr-Digest"); digest != "" {
		d.digest = digest
	}
	source := &sourceReader{r: res.Body}
	n, err := io.Copy(io.MultiWriter(d.w, d.sum), source)
	d.written += n
	if source.err.Load() != nil {
		return d.t.c.sendError(err)
	}
	return err
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
		return "", fmt.Errorf("the server responded %s instead of the archive's URL", res.Status)
	}
	return target.String(), nil
}

// fetch requests the archive at location from the byte offset on, without the API token.
// If the archive's ETag is no longer tag, the response is the whole archive.
func (t *FileSets) fetch(ctx context.Context, location string, offset int64, tag string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return nil, fmt.Errorf("the archive's URL: %w", err)
	}
	req.Header.Set("User-Agent", t.c.userAgent)
	req.Header.Set("Accept-Encoding", "identity") // no further compression, because offsets count bytes of the archive
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		req.Header.Set("If-Range", tag)
	}
	return t.c.send(req)
}
