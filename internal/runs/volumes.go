package runs

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/store"
)

// mount is a volume of a run before its version is resolved.
type mount struct {
	name, version, path string
	requested           bool // the version is from the request
	optional, writable  bool
}

// resolveVolumes returns the volumes of the run with resolved versions. It omits
// optional volumes that do not exist.
func (s *Service) resolveVolumes(ctx context.Context, org string, n *stint.NewRun, from *source, p *definition.Plan) ([]definition.Volume, error) {
	mounts, err := mountsOf(n, from, p)
	if err != nil {
		return nil, err
	}
	out := make([]definition.Volume, 0, len(mounts))
	for _, m := range mounts {
		if resumed, ok := m.resume(from); ok {
			out = append(out, resumed)
			continue
		}
		v, err := s.resolveVersion(ctx, org, stint.Volumes, m.name, m.version)
		if m.optional && stint.KindOf(err) == stint.KindNotFound {
			continue
		}
		if err != nil {
			return nil, withParam(err, "volumes."+m.name)
		}
		out = append(out, definition.Volume{Name: m.name, Version: v.ID, Digest: v.Digest, Path: m.path, Writable: m.writable})
	}
	return out, nil
}

// resume returns the volume at the version that the checkpoint's run mounted. It
// returns false if the run does not start from a checkpoint, if the request names a
// version, or if the checkpoint's run did not mount the volume.
func (m mount) resume(from *source) (definition.Volume, bool) {
	if !from.resumes || m.requested {
		return definition.Volume{}, false
	}
	i := slices.IndexFunc(from.parent.Volumes, func(v definition.Volume) bool { return v.Name == m.name })
	if i < 0 {
		return definition.Volume{}, false
	}
	v := from.parent.Volumes[i]
	v.Path, v.Writable = m.path, m.writable
	return v, true
}

// mountsOf returns the volumes of the definition, then the other volumes that the
// previous run mounted at their default paths (earlier requests added them), then the
// volumes that this request adds.
func mountsOf(n *stint.NewRun, from *source, p *definition.Plan) ([]mount, error) {
	var out []mount
	seen := map[string]bool{}
	add := func(m mount) {
		m.path = definition.VolumePath(m.name, m.path)
		out, seen[m.name] = append(out, m), true
	}
	for _, key := range slices.Sorted(maps.Keys(p.Definition.Volumes)) {
		d := p.Definition.Volumes[key]
		m := mount{name: definition.Interpolate(key, p.Variables, nil), version: definition.Interpolate(d.Version, p.Variables, nil), path: d.Path, optional: d.Optional, writable: d.Writable}
		if e := stint.CheckName("volumes."+key, m.name); e != nil {
			return nil, e
		}
		if requested, ok := n.Volumes[m.name]; ok {
			m.version, m.requested, m.optional = requested, true, false
		}
		add(m)
	}
	if from.parent != nil {
		for _, v := range from.parent.Volumes {
			if _, ok := n.Volumes[v.Name]; !ok && !seen[v.Name] && v.Path == definition.VolumePath(v.Name, "") {
				add(mount{name: v.Name})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.Volumes)) {
		if !seen[name] {
			add(mount{name: name, version: n.Volumes[name], requested: true})
		}
	}
	return out, nil
}

// resolveVersion returns a version of an artifact or a volume.
func (s *Service) resolveVersion(ctx context.Context, org string, kind stint.FileSetKind, name, requested string) (store.FileSetVersion, error) {
	set, err := s.c.Store.FileSetByName(ctx, org, kind, name)
	if err != nil {
		return store.FileSetVersion{}, store.PublicError(err, string(kind), name)
	}
	noun := string(kind) + " version"
	id, number, ok := stint.ParseVersion(requested, stint.IsFileSetVersion)
	if !ok {
		return store.FileSetVersion{}, stint.NotFound(noun, requested)
	}
	v, err := s.c.Store.FileSetVersion(ctx, org, set.ID, id, number)
	if errors.Is(err, store.ErrNotFound) && id == "" && number == 0 {
		return v, store.NoCurrentVersion(ctx, s.c.Store, org, set.FileSet)
	}
	return v, store.PublicError(err, noun, requested)
}

// resolveArtifact sets the plan's artifact, if there is one. If the request names a
// version other than latest, it also sets the digest of the workspace.
func (s *Service) resolveArtifact(ctx context.Context, org string, n *stint.NewRun, from *source, p *definition.Plan) error {
	name := n.ArtifactName
	if name == "" {
		name = from.artifactName()
	}
	if name == "" {
		if n.ArtifactVersion != "" {
			return stint.MissingParam("artifactName", "'artifactVersion' needs 'artifactName'.")
		}
		return nil
	}
	p.Artifact = &definition.Artifact{Name: name}
	switch {
	case n.ArtifactVersion != "" && n.ArtifactVersion != stint.LatestVersion:
		v, err := s.resolveVersion(ctx, org, stint.Artifacts, name, n.ArtifactVersion)
		if err != nil {
			return withParam(err, "artifactVersion")
		}
		p.Artifact.Version, p.Artifact.Digest, p.Workspace = v.ID, v.Digest, v.Digest
	case from.resumes && inherited(n):
		p.Artifact.Version, p.Artifact.Digest = from.artifactVersion, from.workspace
	default:
		p.Artifact.Latest = true
	}
	return nil
}

// inherited reports whether the run inherits the artifact of the previous run.
func inherited(n *stint.NewRun) bool { return n.ArtifactName == "" && n.ArtifactVersion == "" }

// withParam returns err with param set, if err is a *stint.Error without a parameter.
// Otherwise it returns err.
func withParam(err error, param string) error {
	if e, ok := errors.AsType[*stint.Error](err); ok && e.Param == "" {
		located := *e
		located.Param = param
		return &located
	}
	return err
}
