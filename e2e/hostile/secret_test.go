package hostile_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// secretAttacks print secrets in ways in which agents print them by accident.
var secretAttacks = []attack{
	{"secrets in every encoding", encoded},
	{"secrets in pieces", pieces},
	{"secrets of several lines", severalLines},
	{"secrets in errors", inErrors},
}

const hidden = `s3cr/et+"value"?&=ü %pw`

// checkHidden checks that the texts are not in the data of the API about a run, the log
// of the server, or the data folder. The keys of texts describe the texts.
func (w *tenant) checkHidden(r *stint.Run, texts map[string]string) {
	w.Helper()
	all := w.allData(r.ID)
	for name, text := range texts {
		if strings.Contains(all, text) {
			w.Errorf("the API returns the secret, %s: %q", name, text)
		}
		if strings.Contains(w.host.Log(), text) {
			w.Errorf("the secret is in the server's log, %s", name)
		}
		if places := w.host.find(text); len(places) > 0 {
			w.Errorf("the secret is on the disk, %s: %q", name, places)
		}
	}
}

// encodings returns the encoded forms of a secret by name. A base64 form is reduced to
// the part that does not depend on neighbouring bytes.
func encodings(s string) map[string]string {
	inJSON, _ := json.Marshal(s) // cannot fail for a string
	all := map[string]string{
		"plain": s, "hex": hex.EncodeToString([]byte(s)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(s))),
		"query": url.QueryEscape(s), "path": url.PathEscape(s), "json": strings.Trim(string(inJSON), `"`),
	}
	for before := range 3 {
		for name, e := range map[string]*base64.Encoding{"base64": base64.StdEncoding, "base64url": base64.URLEncoding} {
			text := e.EncodeToString([]byte(strings.Repeat("x", before) + s))
			all[name+" after "+string('0'+rune(before))] = text[4 : len(text)-4]
		}
	}
	return all
}

func encoded(w *tenant) {
	r := w.run(stint.NewRun{Secrets: map[string]string{"HIDDEN": hidden}, Prompt: python(`
import base64, binascii, json, os, sys, urllib.parse
s = os.environ["HIDDEN"]
b = s.encode()
for out in (sys.stdout, sys.stderr):
    for before in range(3):
        for after in range(3):
            for encode in (base64.b64encode, base64.urlsafe_b64encode):
                t = encode(b"x" * before + b + b"y" * after).decode()
                print("b64:", t, t.rstrip("="), file=out)
    print(base64.encodebytes(b).decode(), file=out)
    print(b.hex(), b.hex().upper(), binascii.hexlify(b).decode(), file=out)
    print(urllib.parse.quote(s), urllib.parse.quote(s, safe=""), urllib.parse.quote_plus(s), urllib.parse.quote_plus(s).lower(), file=out)
    print(json.dumps(s), json.dumps(s, ensure_ascii=False), json.dumps({"k": json.dumps({"v": s})}), file=out)
    print(s, s + s, "x" + s + "y", file=out)
print("end")`)})
	w.checkHidden(r, encodings(hidden))
	if out := w.output(r.ID); strings.Count(out, "***") < 30 || !strings.Contains(out, "end\n") {
		w.Errorf("the output is %q", out)
	}
}

func pieces(w *tenant) {
	r := w.run(stint.NewRun{Secrets: map[string]string{"HIDDEN": hidden}, Prompt: python(`
import base64, os, time
b = os.environ["HIDDEN"].encode()
for text in (b, base64.b64encode(b), b.hex().encode()):
    for size in (1, 2, 3, 7):
        for i in range(0, len(text), size): os.write(1, text[i:i+size])
        os.write(1, b"\n")
    half = len(text) // 2
    os.write(1, text[:half]); time.sleep(0.2); os.write(2, b"between\n"); os.write(1, text[half:] + b"\n")
os.write(1, b"x" * 40000 + b + b"\n")
os.write(1, b[:10])`)})
	texts := encodings(hidden)
	w.checkHidden(r, map[string]string{"plain": texts["plain"], "hex": texts["hex"], "base64": texts["base64 after 0"]})
	// A part at the end of the output is not the secret, so it is written unchanged.
	if out := w.output(r.ID); strings.Count(out, "***\n") < 15 || !strings.HasSuffix(out, hidden[:10]) {
		w.Errorf("the output is %q", out)
	}
}

func severalLines(w *tenant) {
	key := "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----\n"
	r := w.run(stint.NewRun{Secrets: map[string]string{"KEY": key}, Prompt: `echo "$KEY"; echo "$KEY" | sed 's/^/    /'; echo "$KEY" | sed 's/$/\r/'; echo "$KEY" | tac; echo "$KEY" | base64; echo "$KEY" | base64 -w 64; python3 -c 'import os, json; print(json.dumps(os.environ["KEY"]))'; echo "$KEY" | tail -n 3 >&2; echo end`})
	w.checkHidden(r, map[string]string{"a line": "MIIEvQIBADANBgkqhkiG9w0B", "another": "AQEFAASCBKcwggSjAgEAAoIB", "base64": base64.StdEncoding.EncodeToString([]byte(key))[8:40]})
	if out := w.output(r.ID); !strings.Contains(out, "***") || !strings.Contains(out, "end\n") {
		w.Errorf("the output is %q", out)
	}
}

func inErrors(w *tenant) {
	r := w.ended(w.create(stint.NewRun{Secrets: map[string]string{"HIDDEN": hidden}, Prompt: `
"/no/such/$HIDDEN"
cat "/no/such/$HIDDEN"
echo "failed: $HIDDEN" >&2
printf '%s' "$HIDDEN" | base64 >&2
printf 'cut %s' "${HIDDEN%ü*}" >&2
exit 3`}).ID)
	if r.Status != stint.Failed || !strings.Contains(installation.Value(r.Error), "failed: ***") {
		w.Errorf("the run is %s: %q", r.Status, installation.Value(r.Error))
	}
	texts := encodings(hidden)
	w.checkHidden(r, map[string]string{"plain": texts["plain"], "base64": texts["base64 after 0"]})
}
