// Package plainjson encodes JSON without escaping the characters <, >, and &.
//
// Package encoding/json escapes them for JSON inside of HTML pages. Stint serves JSON
// only as application/json with X-Content-Type-Options: nosniff, and prompts and output
// are full of these characters.
package plainjson

import (
	"bytes"
	"encoding/json"
)

// Marshal returns the JSON of v, like json.Marshal, without escaping <, >, and &.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
