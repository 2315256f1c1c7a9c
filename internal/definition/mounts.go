package definition

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
)

// systemPaths contains the paths in the sandbox that a mount must not cover. A mount
// must not be below them either, except below "/", "/home/agent", and "/tmp".
var systemPaths = []string{"/", "/proc", "/sys", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/run", "/boot", "/home/agent", "/tmp"}

// mounts checks the names and versions of the volumes, and the paths of the artifact
// and the volumes.
func (l *errorList) mounts(d *stint.Definition) {
	seen := map[string]string{} // name of the parameter by its path
	l.mount(seen, "artifact.path", d.ArtifactPath())
	for _, name := range slices.Sorted(maps.Keys(d.Volumes)) {
		at, v := "volumes."+name, d.Volumes[name]
		if slices.ContainsFunc(References(name, v.Version), Reference.isSecret) {
			l.invalid(at, "A volume's name and version are visible to users and cannot contain a secret. Use '${{ vars.X }}'.")
			continue
		}
		if len(References(name)) == 0 {
			if e := stint.CheckName(at, name); e != nil {
				l.add(e)
				continue
			}
		}
		l.mount(seen, at+".path", VolumePath(name, v.Path))
	}
}

// VolumePath returns the path at which a volume is mounted. This is the path in the
// definition or, if that path is empty, /volumes/ followed by the name.
func VolumePath(name, path string) string {
	if path == "" {
		return "/volumes/" + name
	}
	return path
}

func (l *errorList) mount(seen map[string]string, param, p string) {
	if e := checkMountPath(param, p); e != nil {
		l.add(e)
		return
	}
	for other, owner := range seen {
		if within(p, other) || within(other, p) {
			l.invalid(param, "'%s' and '%s' overlap: choose directories that are not inside each other.", param, owner)
			return
		}
	}
	seen[p] = param
}

// within reports whether p is dir or a path below dir.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func checkMountPath(param, p string) *stint.Error {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) || len(p) > 512 {
		return stint.InvalidParam(param, "'%s' must be an absolute path without '.', '..', or a slash at its end.", stint.Excerpt(p, 128))
	}
	for _, f := range systemPaths {
		if p == f || f != "/" && f != "/home/agent" && f != "/tmp" && within(p, f) || within(f, p) {
			return stint.InvalidParam(param, "'%s' belongs to the sandbox itself. Use a directory such as /workspace or /data.", stint.Excerpt(p, 128))
		}
	}
	return nil
}
