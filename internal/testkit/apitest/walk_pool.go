package apitest

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// poolSize is the maximum number of IDs with the same prefix in a pool, and the maximum
// length of each other list of a pool.
const poolSize = 24

var (
	idForm       = regexp.MustCompile(`^([a-z]+_[0-7][0-9a-hjkmnp-tv-z]{25}|v[1-9][0-9]*_[0-9a-z]{20})$`)
	needsVersion = regexp.MustCompile(`/(versions/\{v\}.*|diff|download)$`)
	versionForm  = regexp.MustCompile(`^v[1-9][0-9]*_[0-9a-z]{20}$`)
)

// pool contains values from Seeds and from responses that exist on the server.
type pool struct {
	ids     []string            // IDs of resources and versions of any kind
	filled  []string            // IDs of file sets to which the walk pushed a version
	made    []string            // IDs of resources that the walk created and may delete
	created int                 // number of resources that the walk created
	agents  []string            // names of agents
	secrets []string            // names of secrets that the walk stored
	paths   []string            // paths of files
	links   []string            // last path elements of download links
	cursors map[string][]string // cursors, by path of the list
}

func newPool(s Seeds) *pool {
	p := &pool{cursors: map[string][]string{}}
	for _, id := range s.IDs {
		p.keepID(id)
	}
	p.agents, p.paths = slices.Clone(s.Names), append([]string{"hello.txt", "a/b.txt"}, s.Paths...)
	return p
}

func (p *pool) keepID(id string) {
	kind, _, _ := strings.Cut(id, "_")
	if len(withPrefix(p.ids, kind+"_")) < poolSize && !slices.Contains(p.ids, id) {
		p.ids = append(p.ids, id)
	}
}

func keep(list *[]string, v string) {
	if v != "" && len(*list) < poolSize && !slices.Contains(*list, v) {
		*list = append(*list, v)
	}
}

// prefixes contains the prefix of the IDs in each collection.
var prefixes = map[string]string{
	"runs": "run_", "agents": "ag_", "artifacts": "art_", "volumes": "vol_", "sessions": "sess_", "checkpoints": "chk_", "tokens": "tok_",
}

// pathValues returns values for the path parameter called name of an operation. The
// values exist on the server, or existed earlier.
func (p *pool) pathValues(at place, name string) []string {
	collection := at.route.segments[min(1, len(at.route.segments)-1)]
	switch name {
	case "id":
		from := p.ids
		if at.method == http.MethodDelete {
			from = p.made
		}
		if filled := withPrefix(p.filled, prefixes[collection]); len(filled) > 0 && needsVersion.MatchString(at.route.path) {
			return filled
		}
		return withPrefix(from, prefixes[collection])
	case "v":
		known := []string{"latest", "1", "v1"}
		if collection == "agents" {
			return append(known, withPrefix(p.ids, "agv_")...)
		}
		for _, id := range p.ids {
			if versionForm.MatchString(id) {
				known = append(known, id)
			}
		}
		return known
	case "name":
		return p.secrets
	case "path":
		return p.paths
	case "link":
		return p.links
	}
	return nil
}

func withPrefix(ids []string, prefix string) []string {
	var some []string
	for _, id := range ids {
		if strings.HasPrefix(id, prefix) {
			some = append(some, id)
		}
	}
	return some
}

// cursor returns a random cursor that a list with this path returned, or "" if there is
// no such cursor.
func (p *pool) cursor(path string, rng *rand.Rand) string {
	if len(p.cursors[path]) == 0 {
		return ""
	}
	return one(rng, p.cursors[path]...)
}

// learn adds the values in a successful response to the pool. After a DELETE, it removes
// the deleted resource from the pool.
func (p *pool) learn(s *draft, resp *http.Response, raw []byte) {
	if s.place.op == nil {
		return
	}
	if s.method == http.MethodDelete {
		p.forget(s.path[strings.LastIndex(s.path, "/")+1:])
		return
	}
	if u, err := url.Parse(resp.Header.Get("Location")); err == nil {
		if link, ok := strings.CutPrefix(u.EscapedPath(), "/v1/downloads/"); ok {
			keep(&p.links, link)
		}
	}
	v, err := decode(raw)
	if err != nil {
		return
	}
	object, _ := v.(map[string]any)
	switch s.place.op.OperationID {
	case "pushArtifactVersion", "pushVolumeVersion":
		keep(&p.filled, strings.Split(s.path, "/")[3])
	case "createAgent", "createArtifact", "createVolume", "createToken":
		id, _ := object["id"].(string)
		if p.created++; p.created%4 == 0 { // the walk may delete only every fourth resource
			keep(&p.made, id)
		}
	case "putSecret":
		name, _ := object["name"].(string)
		keep(&p.secrets, name)
	}
	p.gather(s.place.route.path, v)
}

func (p *pool) forget(deleted string) {
	for _, list := range []*[]string{&p.ids, &p.filled, &p.made, &p.secrets} {
		*list = slices.DeleteFunc(*list, func(v string) bool { return v == deleted })
	}
}

func (p *pool) gather(path string, v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			p.gather(path, e)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			e := v[name]
			text, isText := e.(string)
			switch {
			case isText && name == "nextCursor":
				list := p.cursors[path]
				keep(&list, text)
				p.cursors[path] = list
			case isText && name == "path":
				keep(&p.paths, text)
			case isText && idForm.MatchString(text):
				p.keepID(text)
			default:
				p.gather(path, e)
			}
		}
	}
}
