package api

import (
	"net/http"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/artifacts"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// push stores the body as the next version. The body is an archive, or a tree that
// refers to chunks (treewire).
func (s fileSetAPI) push(p *post) (*response, error) {
	format, err := pushFormat(p.r.Header)
	if err != nil {
		return nil, err
	}
	q := queryOf(p.r)
	message, _ := q.text("message")
	if q.err != nil {
		return nil, q.err
	}
	v, added, err := s.a.c.Artifacts.Push(p.r.Context(), p.caller, s.kind, p.r.PathValue("id"), artifacts.Push{
		Format: format, Archive: p.r.Body, Message: message,
		IfMatch: ifMatch(p.r),
	})
	if err != nil {
		return nil, err
	}
	if !added {
		return jsonResponse(http.StatusOK, v), nil
	}
	return createdResponse(p.r.URL.Path+"/"+v.ID, v), nil
}

// ifMatch returns the ID of the version that must be current, or "" if any may be.
func ifMatch(r *http.Request) string {
	return strings.Trim(strings.TrimSpace(r.Header.Get("If-Match")), `"`)
}

var archiveFormats = map[string]files.Format{
	"application/gzip": files.TarGzip, "application/x-gzip": files.TarGzip, "application/x-gtar": files.TarGzip,
	"application/tar+gzip": files.TarGzip, "application/x-tar+gzip": files.TarGzip, "application/x-tgz": files.TarGzip,
	"application/x-tar": files.Tar, "application/tar": files.Tar,
	"application/zstd": files.TarZstd, "application/x-zstd": files.TarZstd,
	"application/tar+zstd": files.TarZstd, "application/x-tar+zstd": files.TarZstd,
}

// pushFormat returns the format of a pushed body according to its Content-Type. A tar
// archive can also be compressed by a Content-Encoding of gzip or zstd.
func pushFormat(h http.Header) (files.Format, error) {
	if hasMediaType(h, treewire.TreeType) {
		return artifacts.WireTree, nil
	}
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	format := archiveFormats[strings.ToLower(strings.TrimSpace(media))]
	switch encoding := strings.ToLower(h.Get("Content-Encoding")); {
	case format == files.Tar && encoding == "gzip":
		return files.TarGzip, nil
	case format == files.Tar && encoding == "zstd":
		return files.TarZstd, nil
	case format != "" && (encoding == "" || encoding == "identity"):
		return format, nil
	}
	return "", &stint.Error{
		Kind: stint.KindUnsupportedMedia, Code: stint.CodeUnsupportedMediaType, Param: "Content-Type",
		Message: "Send an archive: 'application/gzip' for a tar.gz, 'application/x-tar' for a tar, or 'application/zstd' for a tar.zst.",
	}
}
