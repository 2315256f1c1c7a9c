package contract_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/stint-dev/stint"
)

var inputCases = []testCase{
	{"bodies that are not JSON objects", badBodies},
	{"bodies of other media types", badMediaTypes},
	{"bodies that are too large or too deep", largeBodies},
	{"unknown members and unusual JSON", oddBodies},
	{"incomplete and malformed requests", brokenRequests},
	{"text with special characters is not interpreted", hostileText},
}

// jsonRequests returns a request for every operation with a JSON body. The body is a
// template, which validBody fills.
func (w *tenant) jsonRequests() map[string]request {
	return map[string]request{
		"run":           {method: "POST", path: "/v1/runs", body: `{"agent":"shell","prompt":"true"%s}`},
		"agent":         {method: "POST", path: "/v1/agents", body: `{"name":"%d","framework":"shell"%s}`},
		"agent version": {method: "POST", path: "/v1/agents/" + w.shell.ID + "/versions", body: `{"framework":"shell"%s}`},
		"volume":        {method: "POST", path: "/v1/volumes", body: `{"name":"%d"%s}`},
		"artifact":      {method: "POST", path: "/v1/artifacts", body: `{"name":"%d"%s}`},
		"token":         {method: "POST", path: "/v1/tokens", body: `{"name":"%d"%s}`},
		"secret":        {method: "PUT", path: "/v1/secrets/A", body: `{"value":"valuable"%s}`},
	}
}

// validBody returns a valid body made from the template in r. number makes names
// unique; more is empty, or a comma followed by further members.
func validBody(r request, number int, more string) string {
	template := r.body.(string)
	if strings.Contains(template, "%d") {
		return fmt.Sprintf(template, number, more)
	}
	return fmt.Sprintf(template, more)
}

func badBodies(w *tenant) {
	number := 0
	for _, r := range w.jsonRequests() {
		number++
		whole := validBody(r, number, "")
		for _, body := range map[string]string{
			"cut short": whole[:len(whole)-1], "list": "[" + whole + "]", "null": "null", "text": `"x"`, "number": "7", "true": "true", "words": "agent=shell&prompt=x",
			"trailing object": whole + whole, "trailing text": whole + " x", "trailing comma": strings.TrimSuffix(whole, "}") + ",}", "single quotes": strings.ReplaceAll(whole, `"`, "'"),
			"comment": "// x\n" + whole, "byte order mark": "\ufeff" + whole, "bad UTF-8": validBody(r, number, ",\"x\":\"\xff\xfe\""), "bare NUL": whole + "\x00",
			"control character": validBody(r, number, ",\"x\":\"a\nb\""), "NaN": validBody(r, number, `,"x":NaN`), "two keys": validBody(r, number, `,"x":1,"x":1`),
			"two keys in two spellings": validBody(r, number, `,"x":1,"\u0078":1`), "two keys, deep": validBody(r, number, `,"x":[{"y":{"z":1,"z":2}}]`),
		} {
			r.body = body
			w.wantError(r, 400, invalid)
		}
		for _, body := range []any{"", " \n\t", nil} {
			r.body = body
			w.wantError(r, 400, missing)
		}
		r.body = "{}"
		w.wantError(r, 400, missing)
	}
	w.equal("runs", 0, len(list[object](w, "/v1/runs", nil)))
	w.equal("agents", 1, len(list[object](w, "/v1/agents", nil)))
}

func badMediaTypes(w *tenant) {
	number := 0
	for _, r := range w.jsonRequests() {
		number++
		r.body = validBody(r, number, "")
		for name, value := range map[string][]string{
			"Content-Type":     {"", "text/plain", "text/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=latin1", "application/jsonx", ";;;"},
			"Content-Encoding": {"gzip", "br", "zstd"},
		} {
			for _, v := range value {
				r.header = map[string]string{name: v}
				w.wantError(r, 415, badMedia)
			}
		}
		r.header, r.undocumented = map[string]string{"Content-Type": "Application/JSON; Charset=UTF-8"}, true
		if a := w.do(r); a.StatusCode >= 300 {
			w.Errorf("%s returned %d %s", r.path, a.StatusCode, a.body)
		}
	}
}

func largeBodies(w *tenant) {
	number := 0
	for _, r := range w.jsonRequests() {
		number++
		template := r
		r.body = validBody(template, number, `,"x":"`+strings.Repeat("x", 1<<20)+`"`)
		w.wantError(r, 413, tooLarge)
		r.body = validBody(template, number, `,"x":`+strings.Repeat("[", 100)+strings.Repeat("]", 100))
		w.wantError(r, 400, invalid, "deep")
		r.body = validBody(template, number, `,"x":`+strings.Repeat(`{"a":`, 100_000))
		w.wantError(r, 400, invalid)
		r.body = strings.Repeat("[", 500_000)
		w.wantError(r, 400, invalid)
	}
	w.run(object{"prompt": "true #" + strings.Repeat("x", 500<<10)})
}

func oddBodies(w *tenant) {
	for i, more := range []string{`,"unknown":1`, `,"x":{"name":{"name":2}}`, `,"x":["name","name"]`, `,"Name":7`, `,"":0`, `,"x":1e400`, `,"x":"\u0000"`} {
		for place, r := range w.jsonRequests() {
			r.body, r.undocumented = validBody(r, i, more), true
			a := w.do(r)
			if strings.HasPrefix(place, "agent") { // unknown members of definitions are errors
				if f := a.apiError(); a.StatusCode != 400 || f.Type+" "+f.Code != invalid {
					w.Errorf("%s: %s returned %d %s", place, more, a.StatusCode, a.body)
				}
				continue
			}
			if a.StatusCode >= 300 {
				w.Errorf("%s: %s returned %d %s", place, more, a.StatusCode, a.body)
			}
		}
	}
	var r stint.Run
	w.must(202, request{method: "POST", path: "/v1/runs", body: `{"agent":"shell","prompt":"echo \u00fc \ud83d\ude00"}`}, &r)
	w.equal("prompt", "echo ü 😀", r.Prompt)
	w.awaitStatus(r.ID, stint.Completed)
	w.equal("output", "ü 😀\n", w.output(r.ID))
}

// raw sends text to the server over a new connection, and returns the status line of
// the response. If cut is true, raw closes its side of the connection after the text.
func (w *tenant) raw(text string, cut bool) string {
	w.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.host.url, "http://"))
	check(w, err)
	defer conn.Close()
	check(w, conn.SetDeadline(time.Now().Add(waitLimit)))
	_, _ = io.WriteString(conn, text) // the server may close the connection before it has read the whole text
	if cut {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	response, _ := io.ReadAll(io.LimitReader(conn, 4096))
	line, _, _ := strings.Cut(string(response), "\r\n")
	return line
}

func brokenRequests(w *tenant) {
	head := "Host: x\r\nConnection: close\r\nAuthorization: Bearer " + w.token + "\r\nContent-Type: application/json\r\n"
	for text, want := range map[string]string{
		"POST /v1/volumes HTTP/1.1\r\n" + head + "Content-Length: 100\r\n\r\n{\"name\":":        "400",
		"POST /v1/volumes HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"na": "400",
		"POST /v1/volumes HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n":     "400",
		"GET /v1/runs HTTP/1.1\r\n" + head + "X: " + strings.Repeat("x", 100<<10) + "\r\n\r\n":  "431",
		"GET /v1/runs HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n":                                   "400",
		"GET /v1/runs\r\n\r\n": "400",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 nonsense \r\n\r\n":                               "400",
		"GET /v1/runs HTTP/1.1\r\n" + head + "\r\n":                                                    "200",
		"GET /v1/runs/%zz HTTP/1.1\r\n" + head + "\r\n":                                                "400",
		"POST /v1/volumes HTTP/1.1\r\n" + head + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}": "100",
	} {
		if got := w.raw(text, strings.HasPrefix(text, "POST") && want == "400"); !strings.Contains(got, " "+want+" ") {
			w.Errorf("%.120q returned %q, want %s", text, got, want)
		}
	}
	w.equal("volumes", 0, len(list[object](w, "/v1/volumes", nil)))
}

func hostileText(w *tenant) {
	for _, text := range []string{"'; drop table runs; --", "${{ secrets.X }} $(id) `id`", "<script>alert(1)</script>", "\u202e\u2066\ufeff\u2028", "%s%n%d", "{{.}}", strings.Repeat("😀", 128), "a\tb"} {
		r := w.run(object{"agent": "shell", "prompt": "true # " + text, "metadata": object{"k": text}, "variables": object{"V": text}})
		w.equal("prompt", "true # "+text, r.Prompt)
		w.equal("metadata", text, r.Metadata["k"])
		out, _ := w.runOutput(object{"prompt": `printf %s "$V"`, "variables": object{"V": text}})
		w.equal("output", text, out)
	}
	a := w.do(request{method: "GET", path: "/v1/runs"}) // a browser that guesses could run a prompt
	w.equal("content type", []string{"application/json", "nosniff"}, []string{a.Header.Get("Content-Type"), a.Header.Get("X-Content-Type-Options")})
}
