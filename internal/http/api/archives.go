package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/artifacts"
	"github.com/stint-dev/stint/internal/files"
)

// downloadFormats lists the formats of downloads in the server's order of
// preference.
var downloadFormats = []files.Format{files.TarGzip, files.Zip, files.TarZstd, files.Tar}

var mediaTypes = map[files.Format][2]string{
	files.TarGzip: {"application", "gzip"}, files.Zip: {"application", "zip"}, files.TarZstd: {"application", "zstd"}, files.Tar: {"application", "x-tar"},
}

func mediaType(f files.Format) string { return mediaTypes[f][0] + "/" + mediaTypes[f][1] }

func formatNames() []string {
	names := make([]string, len(downloadFormats))
	for i, f := range downloadFormats {
		names[i] = string(f)
	}
	return names
}

// acceptedFormat returns the format that the client prefers according to its Accept
// headers. If they accept none of the formats, it returns files.TarGzip, because
// the headers may be meant only for the response that redirects to the download.
func acceptedFormat(accept []string) files.Format {
	chosen, best := files.TarGzip, 0.0
	for _, f := range downloadFormats {
		if q := quality(accept, mediaTypes[f][0], mediaTypes[f][1]); q > best {
			chosen, best = f, q
		}
	}
	return chosen
}

// archiveTag returns the entity tag of an archive, without quotes.
func archiveTag(a *artifacts.VersionArchive) string {
	if a.Format == files.TarGzip {
		return a.Version.Digest
	}
	return a.Version.Digest + "." + string(a.Format)
}

// serveZstd responds with an archive that it compresses while sending. The response
// has no Content-Length and does not support ranges.
func serveZstd(w http.ResponseWriter, r *http.Request, archive *artifacts.VersionArchive) error {
	h := w.Header()
	h.Set("Accept-Ranges", "none")
	if notModified(w, r, `W/"`+archiveTag(archive)+`"`) {
		return nil
	}
	h.Set("Content-Type", mediaType(archive.Format))
	h.Set("Content-Disposition", contentDisposition(archive.Name()))
	setUntrusted(h)
	return writeStream(w, r, archive.WriteZstd)
}
