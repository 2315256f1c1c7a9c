package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/spelling"
	"github.com/stint-dev/stint/internal/strictjson"
)

// readJSON reads the body of a request, which must be one JSON object of at most
// stint.MaxBodyBytes and stint.MaxBodyDepth levels.
func readJSON(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength != 0 && !isJSON(r.Header) {
		return nil, &stint.Error{
			Kind: stint.KindUnsupportedMedia, Code: stint.CodeUnsupportedMediaType, Param: "Content-Type",
			Message: "The body must be JSON: send 'Content-Type: application/json' and no Content-Encoding.",
		}
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, stint.MaxBodyBytes))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &stint.Error{
			Kind: stint.KindTooLarge, Code: stint.CodeRequestTooLarge,
			Message: "The body is larger than " + stint.Size(tooLarge.Limit).String() + ". Put large inputs into a volume.",
		}
	}
	if err != nil {
		return nil, errTruncatedBody
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, stint.MissingParam("body", "The body is empty. Send a JSON object.")
	}
	return raw, strictjson.Check("body", raw, stint.MaxBodyDepth)
}

var errTruncatedBody = stint.InvalidParam("body", "The body is incomplete.")

// isJSON reports whether the headers declare uncompressed JSON in UTF-8.
func isJSON(h http.Header) bool {
	_, params, _ := mime.ParseMediaType(h.Get("Content-Type"))
	charset, given := params["charset"]
	return hasMediaType(h, "application/json") && (!given || strings.EqualFold(charset, "utf-8"))
}

// hasMediaType reports whether the headers declare a body of the media type want
// without compression.
func hasMediaType(h http.Header, want string) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	encoding := h.Get("Content-Encoding")
	return err == nil && media == want && (encoding == "" || strings.EqualFold(encoding, "identity"))
}

// decodeJSON decodes a body that readJSON returned. Unknown members are ignored.
func decodeJSON(raw []byte, target any) error {
	return strictjson.Decode("body", raw, target, strictjson.Options{})
}

// decodeLimited decodes a body like decodeJSON. limits are its members that limit access,
// such as the hosts of a secret. It refuses unknown members that are most likely one of
// them, misspelled: if 'host' was ignored, the secret would have no limit.
func decodeLimited(raw []byte, target any, limits ...string) error {
	return strictjson.Decode("body", raw, target, strictjson.Options{Unsupported: func(path string, _ json.RawMessage) *stint.Error {
		if hint := spelling.Hint(path, limits); hint != "" {
			return stint.InvalidParam(path, "Unknown member '%s'.%s", path, hint)
		}
		return nil
	}})
}
