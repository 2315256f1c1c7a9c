package contract_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint"
)

var secretCases = []testCase{
	{"secrets are masked in every encoding", masking},
	{"secrets are masked in errors", maskedErrors},
	{"short values are not masked", shortSecrets},
	{"stored secrets", storedSecrets},
	{"secrets are not written to the disk", secretsOnDisk},
}

// secret is the value of a secret. It contains characters that encodings change.
const secret = "p@ss/w+rd \"quoted\"?=ü&hush"

// encodings returns the encoded forms of a secret that the API must not return, by the
// name of the encoding.
func encodings(s string) map[string]string {
	inJSON, _ := json.Marshal(s) // cannot fail for a string
	all := map[string]string{
		"plain": s, "hex": hex.EncodeToString([]byte(s)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(s))),
		"query": url.QueryEscape(s), "path": url.PathEscape(s), "json": strings.Trim(string(inJSON), `"`),
	}
	for before := range 3 {
		padding := strings.Repeat("x", before)
		std := base64.StdEncoding.EncodeToString([]byte(padding + s + "y"))
		all[fmt.Sprint("base64 at ", before)] = std
		all[fmt.Sprint("base64url at ", before)] = base64.URLEncoding.EncodeToString([]byte(padding + s + "y"))
		all[fmt.Sprint("raw base64 at ", before)] = base64.RawStdEncoding.EncodeToString([]byte(padding + s))
	}
	return all
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// allData returns everything that the API returns about a run, except the prompt.
func (w *tenant) allData(r stint.Run) string {
	w.Helper()
	var all bytes.Buffer
	o := w.object("/v1/runs/" + r.ID)
	delete(o, "prompt")
	raw, err := json.Marshal(o)
	check(w, err)
	all.Write(raw)
	paths := []string{"/v1/sessions/" + r.SessionID, "/v1/runs/" + r.ID + "/events", "/v1/runs/" + r.ID + "/metrics"}
	if r.CheckpointID != nil {
		paths = append(paths, "/v1/checkpoints/"+*r.CheckpointID)
	}
	for _, path := range paths {
		all.Write(w.do(request{method: "GET", path: path}).body)
	}
	for _, e := range list[stint.LogEntry](w, "/v1/runs/"+r.ID+"/logs", nil) {
		fmt.Fprintf(&all, "%s %v\n", e.Message, e.Metadata)
	}
	return all.String()
}

func masking(w *tenant) {
	var script strings.Builder
	for name, text := range encodings(secret) {
		fmt.Fprintf(&script, "echo %s %s\n", quote("<"+name+">"), quote("a:"+text+":z"))
		fmt.Fprintf(&script, "echo %s >&2\n", quote(text))
	}
	half := len(secret) / 2
	fmt.Fprintf(&script, "printf %%s %s; sleep 0.1; printf '%%s\\n' %s\n", quote(secret[:half]), quote(secret[half:]))
	for _, c := range []byte(secret) { // print the secret byte by byte
		fmt.Fprintf(&script, "printf '\\%03o'; ", c)
	}
	script.WriteString("echo; printf '%s' \"$S\" | base64 -w0; echo; printf '%s' \"$S\" | base64 -w 7; printf 'Bearer %s' \"$S\"; echo; echo \"lines: $LINES_OF\"; echo end")
	lines := "-----BEGIN KEY-----\nMIIabcdefghijklm\nnopqrstuvwxyz012\n-----END KEY-----\n"
	out, r := w.runOutput(object{"prompt": script.String(), "secrets": object{"S": secret, "LINES_OF": lines}})
	all := w.allData(r)
	for name, text := range encodings(secret) {
		if strings.HasPrefix(name, "raw ") || strings.HasPrefix(name, "base64") { // the first and last characters depend on neighbouring bytes
			text = text[4 : len(text)-4]
		}
		if strings.Contains(all, text) || strings.Contains(out, text) {
			w.Errorf("the secret is visible, %s: %s", name, text)
		}
		if !strings.Contains(out, "<"+name+"> a:") {
			w.Errorf("the line of %s is missing", name)
		}
	}
	for _, line := range []string{"MIIabcdefghijklm", "nopqrstuvwxyz012"} {
		if strings.Contains(all, line) {
			w.Errorf("a line of a secret is visible: %s", line)
		}
	}
	if !strings.Contains(out, "<plain> a:***:z\n") || !strings.HasSuffix(out, "end\n") || strings.Count(out, "***") < 10 {
		w.Errorf("the output is %q", out)
	}
	if !strings.Contains(out, "Bearer ***\n") {
		w.Errorf("the output lacks the masked header: %q", out)
	}
}

func maskedErrors(w *tenant) {
	r := w.awaitStatus(w.create(object{"prompt": `echo "it broke: $S" >&2; printf 'cut: %s' "${S%hush}" >&2; sleep 0.2; printf 'hush\n' >&2; exit 1`, "secrets": object{"S": "s3cret-and-hush"}}).ID, stint.Failed)
	if !strings.Contains(*r.Error, "it broke: ***\ncut: ***") {
		w.Errorf("the error is %q", *r.Error)
	}
	if strings.Contains(w.allData(r), "s3cret-and") {
		w.Error("the secret is visible")
	}
}

func shortSecrets(w *tenant) {
	out, _ := w.runOutput(object{"prompt": `echo "$A $B" abc abcd`, "secrets": object{"A": "abc", "B": "wxyz"}})
	w.equal("output", "abc *** abc abcd\n", out)
	out, _ = w.runOutput(object{"prompt": `echo "$V"`, "variables": object{"V": "variables are shown"}})
	w.equal("variables", "variables are shown\n", out)
}

func storedSecrets(w *tenant) {
	put := func(name string, body any, status int) {
		w.Helper()
		w.must(status, request{method: "PUT", path: "/v1/secrets/" + name, body: body}, nil)
	}
	put("API_KEY", object{"value": "stored-and-hidden"}, 201)
	put("API_KEY", object{"value": "stored-and-hidden-2"}, 200)
	put("B", object{"value": "another one"}, 201)
	items := list[object](w, "/v1/secrets", nil)
	w.equal("secrets", 2, len(items))
	w.equal("members", []string{"createdAt", "name", "updatedAt"}, keys(items[0]))
	w.agent("named", object{"secrets": object{"API_KEY": object{}}})
	out, r := w.runOutput(object{"agent": "named", "prompt": `echo "${#API_KEY} $API_KEY ${#B}"`})
	w.equal("output", "19 *** 0\n", out)
	out, _ = w.runOutput(object{"prompt": `echo "${#API_KEY} stored-and-hidden-2"; env | grep -c -e API_KEY -e ^B= || true`})
	w.equal("output of an agent that names no secret, which is not masked", "0 stored-and-hidden-2\n0\n", out)
	if strings.Contains(w.allData(r)+fmt.Sprint(items), "stored-and-hidden") {
		w.Error("a stored secret is visible")
	}
	other := w.other()
	other.agent("named", object{"secrets": object{"API_KEY": object{}}})
	other.wantRunError(object{"agent": "named"}, 400, missing, "secrets.API_KEY")
	w.must(204, request{method: "DELETE", path: "/v1/secrets/API_KEY"}, nil)
	w.wantError(request{method: "DELETE", path: "/v1/secrets/API_KEY"}, 404, notFound, "API_KEY")
	w.wantRunError(object{"agent": "named"}, 400, missing, "secrets.API_KEY")
	for _, bad := range []string{"1A", "A-B", "STINT_X", "LD_PRELOAD"} {
		w.wantError(request{method: "PUT", path: "/v1/secrets/" + bad, body: object{"value": "valuable"}}, 400, invalid)
	}
	w.wantError(request{method: "PUT", path: "/v1/secrets/A", body: object{}}, 400, missing, "value")
}

func secretsOnDisk(w *tenant) {
	const mark = "never-on-disk-7f3a9c51e0"
	encoded := base64.StdEncoding.EncodeToString([]byte(mark))
	w.must(201, request{method: "PUT", path: "/v1/secrets/STORED", body: object{"value": "stored-" + mark}}, nil)
	var made stint.Token
	w.must(201, request{method: "POST", path: "/v1/tokens", body: object{"name": "x"}, header: map[string]string{"Idempotency-Key": "token-1"}}, &made)
	r := w.startRun(object{"prompt": `echo "$S" "$STORED"; printf '%s' "$S" | base64; echo "$S" >&2; sleep 600`, "secrets": object{"S": mark}})
	w.waitUntil("the output", func() bool { return strings.Contains(w.output(r.ID), "***") })
	look := func() {
		w.Helper()
		for _, hidden := range []string{mark, encoded, made.Secret} {
			if place := find(w.host.data, hidden); place != "" {
				w.Errorf("%s contains a secret", place)
			}
		}
	}
	look()
	w.host.execute(w, "update run_specs set sealed = sealed where run_id = $1 and sealed is not null", r.ID)
	w.cancel(r.ID)
	w.waitUntil("a checkpoint", func() bool { return w.read(r.ID).CheckpointID != nil })
	look()
	w.host.execute(w, "update run_specs set sealed = null where run_id = $1 and sealed is null", r.ID) // the secrets were removed when the run ended
}

// find returns the path of a file below dir that contains the text, or "" if there is
// none.
func find(dir, text string) (place string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // the file may have been removed during the walk
		}
		if raw, err := os.ReadFile(path); err == nil && bytes.Contains(raw, []byte(text)) {
			place = path
		}
		return nil
	})
	return place
}
