package sandboxtest

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/stint-dev/stint/internal/sandbox"
)

// layerCases test mounts that every driver must support, even if it does not support
// overlays.
var layerCases = map[string]func(*world){"one layer": oneLayer, "aliases of a source": aliasedSource, "invalid mounts": invalidMounts}

// noOverlayCases test drivers that do not support overlays.
var noOverlayCases = map[string]func(*world){"overlays are not supported": overlayRefused}

// overlayCases test overlays. overlayTests returns each case with mounts in the spec and,
// if the driver supports Attach, also with mounts that are attached later.
var overlayCases = map[string]func(w *world, with mountFunc){}

// mountFunc prepares a sandbox with additional mounts. It is prepareWith or attachTo.
type mountFunc func(s sandbox.Spec, mounts ...sandbox.Mount) (sandbox.Sandbox, error)

func (w *world) prepareWith(s sandbox.Spec, mounts ...sandbox.Mount) (sandbox.Sandbox, error) {
	s.Mounts = append(s.Mounts, mounts...)
	b, err := w.driver.Prepare(w.Context(), s)
	if err == nil {
		w.closeLater(b)
	}
	return b, err
}

func (w *world) attachTo(s sandbox.Spec, mounts ...sandbox.Mount) (sandbox.Sandbox, error) {
	limits := s.Resources
	s.Resources = sandbox.Resources{}
	b := w.prepare(s)
	return b, b.Attach(w.Context(), limits, mounts)
}

// overlayTests returns the functions of all overlay tests by name.
func (s *suite) overlayTests() map[string]func(*world) {
	all := map[string]func(*world){}
	for name, run := range overlayCases {
		all["layers: "+name] = func(w *world) { run(w, w.prepareWith) }
		if s.Attach {
			all["attached layers: "+name] = func(w *world) { run(w, w.attachTo) }
		}
	}
	return all
}

func oneLayer(w *world) {
	s := w.spec()
	s.Mounts = append(s.Mounts, sandbox.Mount{Layers: []string{w.dirWithFile("data", "data")}, Target: "/data", Alias: []string{"/mnt/again"}})
	w.want("read inside", "datadata", w.succeed(s, "read", "/data/f", "/mnt/again/f"))
	if !w.suite.Isolates {
		return
	}
	next := w.spec()
	next.Mounts = s.Mounts
	r := w.launch(next, "write", "/data/x", "x")
	w.wantExit(r, sandbox.Exit{Code: 1, Cause: sandbox.Exited})
}

func aliasedSource(w *world) {
	s := w.spec()
	out := w.dirWithFile("out", "out")
	s.Mounts = append(s.Mounts, sandbox.Mount{Source: out, Target: "/data", Alias: []string{"/mnt/out"}, Writable: true})
	w.want("read inside", "out", w.succeed(s, "read", "/mnt/out/f"))
	next := w.spec()
	next.Mounts = s.Mounts
	w.succeed(next, "write", "/mnt/out/x", "made")
	w.want("written inside", "made", w.hostFile(out, "x"))
}

func invalidMounts(w *world) {
	dir := w.dirWithFile("data", "data")
	for what, m := range map[string]sandbox.Mount{
		"neither source nor layers": {Target: "/data"},
		"a source and layers":       {Target: "/data", Source: dir, Layers: []string{dir}},
		"an upper folder alone":     {Target: "/data", Source: dir, Upper: dir},
		"writable layers":           {Target: "/data", Layers: []string{dir}, Writable: true},
		"a relative layer":          {Target: "/data", Layers: []string{dir, "data"}},
		"a relative upper":          {Target: "/data", Layers: []string{dir}, Upper: "data"},
		"too many":                  {Target: "/data", Layers: make([]string, sandbox.MaxLayers+1)},
		"a reserved alias":          {Target: "/data", Source: dir, Alias: []string{"/proc/x"}},
		"one layer as workspace":    {Target: sandbox.WorkspaceDir, Layers: []string{dir}},
		"layers as root":            {Target: "/", Layers: []string{dir, dir}},
	} {
		if _, err := w.prepareWith(w.spec(), m); err == nil {
			w.Errorf("a mount with %s succeeds", what)
		}
	}
}

// twoLayers returns a mount over the workspace with two layers and an upper folder.
func (w *world) twoLayers() sandbox.Mount {
	w.Helper()
	upper := filepath.Join(w.dir, "changes", "upper")
	w.must(os.MkdirAll(upper, 0o700))
	return sandbox.Mount{Target: sandbox.WorkspaceDir, Layers: []string{w.dirWithFile("over", "over"), w.dirWithFile("under", "under")}, Upper: upper}
}

// overlayRefused checks that Prepare and Attach return ErrOverlay, and that a sandbox
// still accepts other mounts after that.
func overlayRefused(w *world) {
	if w.driver.Probe(w.Context()).Overlay {
		w.Fatal("Probe reports that overlays work")
	}
	m := w.twoLayers()
	if _, err := w.prepareWith(w.spec(), m); !errors.Is(err, sandbox.ErrOverlay) {
		w.Errorf("Prepare: %v, want %v", err, sandbox.ErrOverlay)
	}
	if !w.suite.Attach {
		return
	}
	b := w.prepare(w.spec())
	if err := b.Attach(w.Context(), sandbox.Resources{}, []sandbox.Mount{m}); !errors.Is(err, sandbox.ErrOverlay) {
		w.Errorf("Attach: %v, want %v", err, sandbox.ErrOverlay)
	}
	w.must(b.Attach(w.Context(), sandbox.Resources{}, []sandbox.Mount{{Source: w.dirWithFile("data", "data"), Target: "/data"}}))
}
