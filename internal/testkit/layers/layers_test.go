package layers_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/stint-dev/stint"

// layers lists the folders of the module from the lowest layer to the highest.
// A folder includes the folders below it that are not listed. A package may
// import packages of its own folder and of lower layers, but not of other
// folders in its layer. The empty name stands for the root package.
var layers = [][]string{
	{""},
	{"internal/privatefile", "internal/spelling", "internal/buildinfo"},
	{"api", "client", "examples", "internal/config", "internal/telemetry", "internal/strictjson", "internal/plainjson", "internal/jobs", "internal/localdir", "internal/lru", "internal/masking", "internal/jsonschema", "internal/gitpatch", "internal/sealing", "internal/image", "internal/llm"},
	{"internal/framework"},
	{"internal/assistant", "internal/mcp"},

	// The ports.
	{"internal/sandbox/layout"},
	{"internal/store", "internal/blob", "internal/notify", "internal/sandbox"},

	// Files.
	{"internal/files/format", "internal/files/limiter", "internal/files/ordered"},
	{"internal/files/limits", "internal/files/spool", "internal/files/index"},
	{"internal/files/treewire"},
	{"internal/files/pack"},
	{"internal/files/manifest"},
	{"internal/files/archive", "internal/files/checkout", "internal/files/diff", "internal/files/gc"},
	{"internal/files/check", "internal/files/commit"},
	{"internal/files/scan"},
	{"internal/files/exchange"},
	{"internal/files"},

	// Egress.
	{"internal/egress/conntrack", "internal/egress/dns", "internal/egress/log", "internal/egress/policy"},
	{"internal/egress/tlsca"},
	{"internal/egress/proxy"},
	{"internal/egress/llmproxy"},
	{"internal/egress"},

	// The use cases.
	{"internal/definition", "internal/paging"},
	{"internal/auth", "internal/feed", "internal/maintenance", "internal/sealing/keyring", "internal/sandbox/pool"},
	{"internal/agents", "internal/artifacts", "internal/secrets", "internal/dispatch", "internal/runs", "client/transfer"},
	{"internal/worker/agentcli", "internal/worker/checkout", "internal/worker/output", "internal/worker/usage"},
	{"internal/worker/run"},
	{"internal/worker"},

	{"internal/http/admin", "internal/http/api"},

	// The adapters. Only packages of higher layers import them.
	{"internal/store/groupcommit", "internal/notify/inproc", "internal/blob/localfs", "internal/blob/s3", "internal/blob/sealed", "internal/blob/quota", "internal/sandbox/agentinit", "internal/sandbox/capture", "internal/sandbox/diskusage", "internal/sandbox/idmap", "internal/sandbox/seccomp", "internal/sandbox/gvisor/embedded"},
	{"internal/store/sqlstore", "internal/notify/pgnotify", "internal/sandbox/control", "internal/sandbox/overlay", "internal/sandbox/rootfs"},
	{"internal/store/sqlite", "internal/store/postgres", "internal/sandbox/namespace"},
	{"internal/sandbox/gvisor"},

	{"internal/app"},
	{"internal/cli"},
	{"cmd/stint", "cmd/stint-bench"},
}

// transports lists packages of the standard library that use cases, ports, and
// the packages in internal/files must not import.
var transports = []string{"net/http", "database/sql"}

// isTransportFree reports whether the packages of a folder must not import the
// packages in transports.
func isTransportFree(folder string) bool {
	first := slices.IndexFunc(layers, func(l []string) bool { return l[0] == "internal/definition" })
	last := slices.IndexFunc(layers, func(l []string) bool { return l[0] == "internal/worker" })
	i := layerOf(folder)
	return i >= first && i <= last && !strings.HasPrefix(folder, "client/") ||
		strings.HasPrefix(folder, "internal/files") ||
		slices.Contains([]string{"internal/store", "internal/blob", "internal/notify", "internal/sandbox", "internal/framework", "internal/masking", "internal/sealing", "internal/jobs", "internal/egress/dns", "internal/egress/policy"}, folder)
}

// lean lists packages that must not import large packages of the standard
// library, because they run at each start of a sandbox.
var lean = []string{"internal/sandbox/namespace/setup", "internal/sandbox/agentinit"}

type pkg struct {
	ImportPath string
	Imports    []string
}

// folderOf returns the listed folder that contains the package. If several
// folders contain it, folderOf returns the innermost folder. ok is false if no
// listed folder contains the package.
func folderOf(name string) (folder string, ok bool) {
	for _, layer := range layers {
		for _, f := range layer {
			if (name == f || f != "" && strings.HasPrefix(name, f+"/")) && len(f) >= len(folder) {
				folder, ok = f, true
			}
		}
	}
	return folder, ok
}

func layerOf(folder string) int {
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, folder) })
}

// isTest reports whether only tests may import the package.
func isTest(name string) bool {
	last := name[strings.LastIndexByte(name, '/')+1:]
	return strings.HasPrefix(name, "internal/testkit/") || strings.HasPrefix(name, "e2e") || strings.HasSuffix(last, "test") ||
		slices.Contains([]string{"internal/store/model", "internal/framework/fakecli", "internal/sandbox/sandboxtest/fake"}, name)
}

func TestImportsPointDownwards(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		name := short(p.ImportPath)
		if isTest(name) {
			continue
		}
		folder, ok := folderOf(name)
		if !ok {
			t.Errorf("the package %s is missing in the list of layers", name)
			continue
		}
		for _, path := range p.Imports {
			if path != module && !strings.HasPrefix(path, module+"/") {
				continue
			}
			imported := short(path)
			if isTest(imported) {
				t.Errorf("%s imports %s, which is only for tests", name, imported)
				continue
			}
			other, _ := folderOf(imported)
			if other != folder && layerOf(other) >= layerOf(folder) {
				t.Errorf("%s imports %s, which is not in a lower layer", name, imported)
			}
		}
	}
}

func TestListedFoldersExist(t *testing.T) {
	t.Parallel()
	all := list(t)
	for _, layer := range layers {
		for _, folder := range layer {
			exists := func(p pkg) bool {
				got, _ := folderOf(short(p.ImportPath))
				return got == folder
			}
			if !slices.ContainsFunc(all, exists) {
				t.Errorf("the listed folder %q does not exist", folder)
			}
		}
	}
}

func TestStandardLibraryImports(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		name := short(p.ImportPath)
		folder, ok := folderOf(name)
		if !ok || isTest(name) {
			continue
		}
		refused := []string{}
		if isTransportFree(folder) {
			refused = transports
		}
		if slices.Contains(lean, name) {
			refused = []string{"net", "net/http", "encoding/json"}
		}
		if name == "internal/mcp" || name == "internal/http/api" || name == "internal/assistant" {
			refused = []string{"database/sql"}
		}
		for _, imported := range p.Imports {
			if slices.Contains(refused, imported) {
				t.Errorf("%s must not import %s", name, imported)
			}
		}
	}
}

func TestPublicPackagesImportTheStandardLibraryOnly(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		if p.ImportPath != module && p.ImportPath != module+"/client" {
			continue
		}
		for _, imported := range p.Imports {
			if strings.Contains(strings.Split(imported, "/")[0], ".") && !strings.HasPrefix(imported, module) {
				t.Errorf("%s imports %s", p.ImportPath, imported)
			}
		}
	}
}

// short returns an import path relative to the module.
func short(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}
