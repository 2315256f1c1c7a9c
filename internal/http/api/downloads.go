package api

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"path"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/artifacts"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/files"
)

// download redirects the client to a signed URL of the archive, which needs no token
// and is valid for auth.LinkLifetime. The URL refers to the object storage if that
// contains the whole archive as one object, and otherwise to this API.
func (s fileSetAPI) download(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	q := queryOf(r)
	reference, given := q.text("versionId")
	if given && reference == "" {
		q.fail(stint.NotFound(string(s.kind)+" version", reference))
	}
	format := files.Format(q.choice("format", string(acceptedFormat(r.Header["Accept"])), formatNames()...))
	if q.err != nil {
		return q.err
	}
	id := r.PathValue("id")
	archive, err := s.a.c.Artifacts.Archive(r.Context(), c.OrgID, s.kind, id, reference, format)
	if err != nil {
		return err
	}
	address, direct, err := archive.DirectLink(r.Context(), auth.LinkLifetime)
	if err != nil {
		return err
	}
	if !direct {
		link := auth.Link{OrgID: c.OrgID, Kind: s.kind, FileSetID: id, VersionID: archive.Version.ID}
		if format != files.TarGzip {
			link.Format = string(format)
		}
		signed, err := s.a.c.Auth.SignLink(link)
		if err != nil {
			return err
		}
		address = s.a.baseURL(r) + "/v1/downloads/" + signed
	}
	(&response{status: http.StatusFound, header: map[string]string{"Location": address, "Vary": "Accept"}}).write(w)
	return nil
}

// baseURL returns the prefix of URLs in responses: Config.PublicURL, or else the
// scheme and the host of the request.
func (a *api) baseURL(r *http.Request) string {
	if a.c.PublicURL != "" {
		return a.c.PublicURL
	}
	u := url.URL{Scheme: "http", Host: r.Host}
	if r.TLS != nil {
		u.Scheme = "https"
	}
	return u.String()
}

// serveDownload serves the archive of a signed link. It ignores an Authorization
// header, because some clients send it again after a redirect.
func (a *api) serveDownload(w http.ResponseWriter, r *http.Request, _ *auth.Caller) error {
	link, err := a.c.Auth.VerifyLink(r.PathValue("link"))
	if err != nil {
		return err
	}
	format := files.TarGzip
	if link.Format != "" {
		format = files.Format(link.Format)
	}
	archive, err := a.c.Artifacts.Archive(r.Context(), link.OrgID, link.Kind, link.FileSetID, link.VersionID, format)
	if err != nil {
		return err
	}
	if format == files.TarZstd {
		return serveZstd(w, r, archive)
	}
	return serveArchive(w, r, archive)
}

// serveArchive serves an archive of known length, or the requested ranges of it.
func serveArchive(w http.ResponseWriter, r *http.Request, archive *artifacts.VersionArchive) error {
	content, err := archive.Open(r.Context())
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	sum, known, err := archive.Sum(r.Context(), content.Size(), wantsDigest(r.Header))
	if err != nil {
		return err
	}
	s := contentInfo{
		contentType: mediaType(archive.Format), name: archive.Name(),
		etag: archiveTag(archive), modified: archive.Version.CreatedAt.Time,
	}
	if known {
		s.sum = sum[:]
	}
	if r.Method == http.MethodGet && r.Header.Get("Range") == "" && r.Header.Get("If-None-Match") == "" {
		archive.CountDownload(content.Size())
	}
	return serveContent(w, r, content, s)
}

// file serves one file of a version.
func (s fileSetAPI) file(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
	file := r.PathValue("path")
	f, entry, err := s.a.c.Artifacts.Open(r.Context(), c.OrgID, s.kind, r.PathValue("id"), r.PathValue("v"), file)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := hex.DecodeString(entry.SHA256)
	if err != nil {
		return fmt.Errorf("decode the hash of a file: %w", err)
	}
	return serveContent(w, r, f, contentInfo{
		contentType: "application/octet-stream", name: path.Base(file),
		etag: entry.SHA256, modified: entry.ModifiedAt.Time, sum: sum,
	})
}
