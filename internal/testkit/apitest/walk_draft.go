package apitest

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// draft returns the next request. The drafts use the operations in turn. Each request
// is, at random, valid, invalid in one part or all parts, or has an unknown path or
// method.
func (w *walk) draft() *draft {
	s := &draft{place: w.places[w.number%len(w.places)], round: w.number / len(w.places), header: http.Header{}}
	s.method = s.place.method
	s.header.Set("Authorization", "Bearer "+w.token)
	if s.round > 0 && w.chance(6) {
		return w.draftUnknown(s)
	}
	s.note("%s", s.place.op.OperationID)
	broken := "nothing"
	if s.round >= 3 && w.chance(60) { // in earlier rounds, valid requests collect IDs of resources
		broken = one(w.rng, aspects(s.place)...)
	}
	s.hostile = broken != "nothing"
	w.fillPath(s, broken != "path" && broken != "all")
	w.fillQuery(s, broken != "query" && broken != "all")
	w.fillHeaders(s, broken != "header" && broken != "all")
	w.fillBody(s, broken != "body" && broken != "all")
	if s.round == 2 || broken == "token" {
		w.breakToken(s)
	}
	return s
}

// aspects returns the parts of a request that a draft can make invalid. A part that
// occurs several times in the result is chosen more often. Usually a draft makes only
// one part invalid, because a server may report only one of two faults.
func aspects(p place) []string {
	some := []string{"all", "all", "header", "header", "query", "query"}
	if strings.Contains(p.route.path, "{") {
		some = append(some, "path", "path")
	}
	if p.op.RequestBody != nil {
		some = append(some, "body", "body", "body", "body")
	}
	return append(some, "token")
}

// oddPaths are escaped paths that the document does not contain.
var oddPaths = []string{
	"/v1", "/v1/", "/v1/nope", "/v1/runs/", "//v1/runs", "/v1//runs", "/v1/./runs", "/v1/../v1/runs", "/v1/runs/a/b/c/d",
	"/V1/runs", "/v1/runs%2F", "/v1/%00", "/v1/%2e%2e/%2e%2e/etc/passwd", "/v1/runs;a=b", "/v1/runs/%ff/x", "/v2/runs",
	"/v1/" + strings.Repeat("a/", 500), "/v1/runs/..", "/v1/%F0%9F%92%A9",
}

// draftUnknown completes s as a request to an unknown path or with a method that the
// path does not have.
func (w *walk) draftUnknown(s *draft) *draft {
	if w.chance(50) {
		s.place = place{}
		s.path = next(w, "path", oddPaths...)
		s.method = one(w.rng, "GET", "POST", "DELETE", "PUT", "PATCH", "HEAD")
		s.wrong(true, "unknown path")
		return s
	}
	w.fillPath(s, w.chance(50))
	has := s.place.route.item.Operations()
	s.method = next(w, "method", "PATCH", "PUT", "OPTIONS", "TRACE", "BREW", "get", "DELETE", "POST", "GET")
	if has[s.method] != nil {
		s.method = "PATCH"
	}
	s.place = place{}
	s.wrong(true, "method %s", s.method)
	return s
}

func (w *walk) breakToken(s *draft) {
	open := len(w.doc.security(s.place.op)) == 0
	switch s.round % 4 {
	case 0:
		s.header.Set("Authorization", "Bearer")
	case 1:
		s.header.Set("Authorization", "Bearer stint_live_"+strings.Repeat("0", 64))
	case 2:
		s.header.Del("Authorization")
	case 3:
		s.header.Set("Authorization", "Bearer "+strings.Repeat("x", 4000))
	}
	s.wrong(!open, "invalid token")
}

func (w *walk) fillPath(s *draft, valid bool) {
	segments := make([]string, len(s.place.route.segments))
	for i, segment := range s.place.route.segments {
		name, isParam := strings.CutPrefix(segment, "{")
		if !isParam {
			segments[i] = segment
			continue
		}
		segments[i] = w.pathValue(s, strings.TrimSuffix(name, "}"), valid)
	}
	s.path = "/" + strings.Join(segments, "/")
}

// oddSegments are escaped segments of paths that identify no resource.
var oddSegments = []string{
	"run_", "run_01aaaaaaaaaaaaaaaaaaaaaaaa", "vol_01JZ8W1K2M4N6P8Q0R2S4T6V8W", "%20", "%00", "%2e%2e", "%2F", "a%2Fb", "..%2f..%2fetc%2fpasswd",
	"%F0%9F%92%A9", "%FF%FE", "%C3%28", "null", "-1", "18446744073709551616", "%22%27%3B--", "%7Bid%7D", "*", "%E2%80%AE", "%0d%0aX-Bad:1",
	strings.Repeat("a", 3000), "v0_", "v999999_a1b2c3d4e5f6g7h8j9k0", "NaN",
}

func (w *walk) pathValue(s *draft, name string, valid bool) string {
	known := w.pool.pathValues(s.place, name)
	if name == "name" && len(known) == 0 {
		known = []string{"WALK_A", "WALK_B", "WALK_C"}
	}
	if len(known) > 0 && (valid || w.chance(70)) {
		return escapeRest(one(w.rng, known...))
	}
	odd := next(w, "segment", oddSegments...)
	if others := w.pool.ids; len(others) > 0 && name == "id" && w.chance(20) {
		odd = others[w.rng.IntN(len(others))] + one(w.rng, "x", "%00", "%20", "/../"+"x")
		odd = strings.ReplaceAll(odd, "/../", "%2f..%2f")
	}
	s.wrong(name != "name", "%s=%.40s", name, odd)
	return odd
}

// escapeRest escapes the segments of a path, but not the slashes between them.
func escapeRest(path string) string {
	segments := strings.Split(path, "/")
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	return strings.Join(segments, "/")
}

func (w *walk) fillQuery(s *draft, valid bool) {
	for _, p := range append(paramsOf(s.place), &openapi3.Parameter{}) {
		switch {
		case p.In == "query" && p.Required && valid, p.In == "query" && w.chance(35):
			w.addQuery(s, p, valid)
		case p.In == "" && !valid && w.chance(15):
			s.query = append(s.query, next(w, "query", "limit=1&limit=2", "unknown=1", "=", "a;b", "%zz=1", "&&&", "limit", strings.Repeat("q", 5000)+"=1"))
			s.wrong(false, "odd query")
		}
	}
}

func paramsOf(p place) []*openapi3.Parameter {
	return target{route: p.route, operation: p.op}.parameters()
}

func (w *walk) addQuery(s *draft, p *openapi3.Parameter, valid bool) {
	value, hostile, certainly := w.queryValue(p, s.place.route.path, valid)
	if hostile {
		// A list must refuse an invalid limit or cursor. An event stream ignores both.
		of := p.Name == "limit" || p.Name == "cursor"
		s.wrong(certainly && (!of || s.place.op.OperationID != "streamRunEvents"), "%s=%.40s", p.Name, value)
	}
	name := p.Name
	if p.Style == "deepObject" {
		name += "[" + one(w.rng, "ticket", "a") + "]"
	}
	if value == "" && valid {
		return
	}
	s.query = append(s.query, url.QueryEscape(name)+"="+url.QueryEscape(value))
}

// tooMany returns the least limit that is greater than the maximum.
func tooMany(limit *openapi3.Schema) string {
	if limit.Max == nil {
		return "101"
	}
	return strconv.Itoa(int(*limit.Max) + 1)
}

// queryValue returns a random value of a parameter. hostile is true if the document may
// not allow the value. certainly is true if the server must refuse the value.
func (w *walk) queryValue(p *openapi3.Parameter, path string, valid bool) (value string, hostile, certainly bool) {
	schema := p.Schema.Value
	bad := !valid && w.chance(60)
	switch {
	case p.Name == "limit" && bad:
		return next(w, "limit", "0", "-1", tooMany(schema), "1e9", "NaN", "+Inf", "-99999999999999999999", "18446744073709551617", "1.5", "ten", "１０", "0x10", "\x00"), true, true
	case p.Name == "limit":
		return one(w.rng, "1", "2", "20", "100"), false, false
	case p.Name == "cursor" && bad:
		return next(w, "cursor", "x", "AAAA", "eyJhIjoxfQ", "\x00", "../../..", "💩", strings.Repeat("A", 9000), "1", "null"), true, true
	case p.Name == "cursor":
		return w.pool.cursor(path, w.rng), true, false // the cursor may belong to a list with other filters
	case p.Name == "status" && bad:
		return next(w, "status", "bogus", "PENDING", "pending,", "pending,bogus", ",", "\x00", "💩"), true, true
	case p.Name == "status":
		return one(w.rng, "pending", "running", "completed,failed", "cancelled,timeout,pending"), false, false
	case len(schema.Enum) > 0 && bad:
		return next(w, "enum", "bogus", "PENDING", "pending,failed", "\x00", "💩"), true, true
	case len(schema.Enum) > 0:
		text, _ := schema.Enum[w.rng.IntN(len(schema.Enum))].(string)
		return text, false, false
	case schema.Format == "date-time" && bad:
		return next(w, "time", "now", "-1", "2026-13-01T00:00:00Z", "2026-01-01", "99999-01-01T00:00:00Z", "2026-01-01T00:00:00", "\x00"), true, true
	case schema.Format == "date-time":
		return one(w.rng, "2020-01-01T00:00:00Z", "2100-12-31T23:59:59.999+02:00", "0001-01-01T00:00:00Z"), false, false
	case p.Name == "from" || p.Name == "to" || p.Name == "versionId":
		if bad {
			return next(w, "version", "nope", "v0", "-1", "99999999999999999999", "v1_💩", "\x00"), true, true
		}
		return one(w.rng, "latest", "v1", "1"), false, false
	case p.Name == "lastEventId" && bad:
		return next(w, "event", "0", "-1", "x", "1.0", "01", "99999999999999999999", "\x00", "💩"), true, false // the header Last-Event-ID takes precedence and may be valid
	case p.Name == "lastEventId":
		return one(w.rng, "1", "2"), true, false
	case bad:
		return next(w, "text", "", "\x00", "💩", strings.Repeat("x", 5000), "\xff\xfe", "' OR 1=1 --", "\u202e", "a\r\nb", "-1", "99999999999999999999"), true, false
	}
	return one(w.rng, "1", "shell", "something"), true, false
}
