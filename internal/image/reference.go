package image

import (
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	stint "github.com/stint-dev/stint"
)

// Reference identifies an image.
type Reference struct {
	Registry   string // such as "ghcr.io"; "docker.io" if the reference has no registry
	Repository string // such as "library/alpine"
	Tag        string // such as "3.20"; "latest" if the reference has neither tag nor digest
	Digest     string // "sha256:…", or empty; if it is set, Tag is not used to find the image
}

const (
	dockerHub      = "docker.io"
	defaultTag     = "latest"
	maxReference   = 512
	maxRepository  = 255
	paramImage     = "image"
	examplePinning = "'docker.io/library/debian:12' or 'ghcr.io/acme/agent@sha256:…'"
)

var (
	registryForm  = regexp.MustCompile(`^(\[[0-9a-fA-F:.]+\]|[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*)(:[0-9]{1,5})?$`)
	componentForm = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$`)
	tagForm       = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	digestForm    = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// ParseReference parses "[registry/]name[:tag][@sha256:…]". The default registry is
// Docker Hub. A name with one element on Docker Hub gets the prefix "library/".
// ParseReference checks only the syntax, not whether the image exists. Errors are of
// type *stint.Error with the parameter "image".
func ParseReference(s string) (Reference, error) {
	if err := checkText(s); err != nil {
		return Reference{}, err
	}
	var r Reference
	rest, digest, pinned := strings.Cut(s, "@")
	if pinned && !digestForm.MatchString(digest) {
		return Reference{}, stint.InvalidParam(paramImage, "The digest of image '%s' must be 'sha256:' and 64 of the digits 0-9 and a-f.", clip(s))
	}
	r.Digest = digest
	if colon := strings.LastIndexByte(rest, ':'); colon > strings.LastIndexByte(rest, '/') {
		rest, r.Tag = rest[:colon], rest[colon+1:]
		if !tagForm.MatchString(r.Tag) {
			return Reference{}, stint.InvalidParam(paramImage, "The tag of image '%s' must be 1 to 128 letters, digits, '_', '.' and '-', and must not start with '.' or '-'.", clip(s))
		}
	} else if !pinned {
		r.Tag = defaultTag
	}
	r.Registry, r.Repository = splitRegistry(rest)
	return r, r.check(s)
}

func checkText(s string) error {
	switch {
	case s == "":
		return stint.InvalidParam(paramImage, "The image is empty. Name one, such as %s.", examplePinning)
	case len(s) > maxReference:
		return stint.InvalidParam(paramImage, "The image's name is longer than %d characters. Shorten it.", maxReference)
	case strings.Contains(s, "://"):
		return stint.InvalidParam(paramImage, "The image '%s' must be named without '%s://'.", clip(s), clip(s[:strings.Index(s, "://")]))
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return stint.InvalidParam(paramImage, "The image '%s' must be named in ASCII letters, digits and punctuation, without spaces.", clip(s))
	}
	return nil
}

// splitRegistry splits a name into registry and repository, and applies their
// defaults. The first of several elements is a registry if it contains a dot or a
// colon or is "localhost".
func splitRegistry(s string) (registry, repository string) {
	first, after, more := strings.Cut(s, "/")
	if more && (first == "localhost" || strings.ContainsAny(first, ".:")) {
		registry, repository = first, after
	} else {
		registry, repository = dockerHub, s
	}
	if registry == "index.docker.io" || registry == "registry-1.docker.io" {
		registry = dockerHub
	}
	if registry == dockerHub && !strings.Contains(repository, "/") {
		repository = "library/" + repository
	}
	return registry, repository
}

func (r Reference) check(s string) error {
	if !registryForm.MatchString(r.Registry) {
		return stint.InvalidParam(paramImage, "The registry '%s' of image '%s' must be a host name or address, with ':port' where it needs one.", clip(r.Registry), clip(s))
	}
	if len(r.Repository) > maxRepository {
		return stint.InvalidParam(paramImage, "The name of image '%s' is longer than %d characters. Shorten it.", clip(s), maxRepository)
	}
	for part := range strings.SplitSeq(r.Repository, "/") {
		if strings.ToLower(part) != part {
			return stint.InvalidParam(paramImage, "The image '%s' must be named in lower case; only its tag may have capitals.", clip(s))
		}
		if !componentForm.MatchString(part) {
			return stint.InvalidParam(paramImage, "The image '%s' is not named like %s: each part between slashes is lower-case letters and digits, separated by single '.', '_', '__' or '-'.", clip(s), examplePinning)
		}
	}
	return nil
}

// String returns the complete reference, with registry and tag.
func (r Reference) String() string {
	s := r.Registry + "/" + r.Repository
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest
	}
	return s
}

// key returns a string that is the same for equivalent references. It omits the tag if
// the reference has a digest.
func (r Reference) key() string {
	if r.Digest != "" {
		r.Tag = ""
	}
	return r.String()
}

func (r Reference) repository(insecure bool) (name.Repository, error) {
	var options []name.Option
	if insecure {
		options = append(options, name.Insecure)
	}
	return name.NewRepository(r.Registry+"/"+r.Repository, options...)
}

// clip returns untrusted text for use in a message: control characters are replaced,
// and the text is cut to 160 bytes.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) <= 160 {
		return s
	}
	return strings.ToValidUTF8(s[:160], "") + "…"
}
