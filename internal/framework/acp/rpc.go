package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
)

// Error codes of JSON-RPC and of the Agent Client Protocol.
const (
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeAuthRequired   = -32000
	codeNotFound       = -32002
)

// maxID is the maximum length in bytes of the ID of an agent's request. Requests
// with longer IDs are refused.
const maxID = 256

// message is a request, a notification or a response.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// parse decodes a line. It returns false if the line is not a JSON object.
func parse(line []byte) (m message, ok bool) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' {
		return m, false
	}
	// Only a syntax error is an error here. Members with a wrong type stay zero.
	if _, broken := errors.AsType[*json.SyntaxError](json.Unmarshal(line, &m)); broken {
		return m, false
	}
	if bytes.Equal(m.ID, []byte("null")) {
		m.ID = nil
	}
	return m, true
}

// isRequest reports whether m is a request, to which the agent expects a response.
func (m *message) isRequest() bool { return m.Method != "" && m.ID != nil }

// isResponse reports whether m is the response to the client's request with this
// ID. Some agents return the number as a string.
func (m *message) isResponse(id int) bool {
	return m.Method == "" && string(bytes.Trim(m.ID, `"`)) == strconv.Itoa(id)
}

// isAnswerable reports whether a response can contain this ID: it is at most maxID
// bytes long, and neither an object nor an array.
func isAnswerable(id json.RawMessage) bool {
	return len(id) > 0 && len(id) <= maxID && id[0] != '{' && id[0] != '['
}

// encode returns v as one line of JSON.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return nil // strings, numbers, and valid JSON can always be encoded
	}
	return append(b, '\n')
}

type request struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id,omitempty"` // 0 for a notification
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

func call(id int, method string, params any) []byte {
	return encode(request{"2.0", id, method, params})
}

type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

func answer(id json.RawMessage, result any) []byte { return encode(response{"2.0", id, result, nil}) }

func refusal(id json.RawMessage, code int, text string) []byte {
	return encode(response{"2.0", id, nil, &rpcError{Code: code, Message: text}})
}
