package layers_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/stint-dev/stint"

// rule says what a package may import of this module. Packages are named
// below the module; a name that ends in /... stands for all below it.
type rule struct {
	of  []string
	may []string // of this module
	std []string // of the standard library, what is refused
}

var (
	ports = []string{"internal/store", "internal/blob", "internal/sandbox", "internal/notify"}
	// A run's way out and its root: what the engine is given of the network and
	// of registries. They speak HTTP, so they are no use cases.
	outward  = []string{"internal/egress", "internal/image"}
	useCases = []string{"internal/agents", "internal/framework/assistant/protocol", "internal/auth", "internal/secrets", "internal/dispatch", "internal/worker", "internal/worker/checkout", "internal/worker/output", "internal/worker/run", "internal/worker/usage", "internal/feed", "internal/framework", "internal/framework/acp", "internal/framework/assistant", "internal/framework/catalog", "internal/framework/claudecode", "internal/framework/codex", "internal/framework/providererror", "internal/framework/jsonlines", "internal/framework/registry", "internal/framework/transcript", "internal/jobs", "internal/worker/agentcli", "internal/runs", "internal/sandbox/pool", "internal/jsonschema", "internal/sealing", "internal/definition", "internal/artifacts", "internal/maintenance"}
)

var rules = []rule{
	{of: []string{""}},
	{of: ports, may: []string{"", "internal/sandbox/layout"}},
	{of: []string{"client"}, may: []string{"", "client/internal/sse"}},
	{of: useCases, may: slices.Concat([]string{"", "internal/egress/log", "internal/egress/policy", "internal/masking", "internal/files", "internal/files/treewire"}, ports, useCases, outward), std: []string{"net/http", "database/sql"}},
	{of: []string{"internal/masking", "internal/egress/dns", "internal/egress/policy"}, may: []string{""}, std: []string{"net/http", "database/sql"}},
	{of: []string{"internal/egress"}, may: []string{"", "internal/sandbox", "internal/egress/dns", "internal/egress/llmproxy", "internal/egress/log", "internal/egress/policy", "internal/egress/proxy", "internal/egress/tlsca"}},
	{of: []string{"internal/egress/llmproxy"}, may: []string{"", "internal/masking", "internal/egress/conntrack", "internal/egress/policy", "internal/egress/proxy"}},
	{of: []string{"internal/egress/proxy"}, may: []string{"", "internal/masking", "internal/egress/conntrack", "internal/egress/policy", "internal/egress/tlsca"}},
	{of: []string{"internal/egress/conntrack", "internal/egress/log", "internal/egress/tlsca"}},
	{of: []string{"internal/image"}, may: []string{""}},
	{of: []string{"client/transfer"}, may: []string{"", "client", "internal/files/treewire", "internal/files", "internal/localdir"}},
	// Parts of internal/files, from the encodings up to the use cases of a library.
	{of: []string{"internal/files/lru", "internal/files/limiter", "internal/files/ordered"}},
	{of: []string{"internal/files/index"}, may: []string{"internal/blob"}},
	{of: []string{"internal/files/format"}, may: []string{""}},
	{of: []string{"internal/files/limits", "internal/files/spool"}, may: []string{"", "internal/files/format"}},
	{of: []string{"internal/files/pack"}, may: []string{"", "internal/blob", "internal/files/format", "internal/files/spool", "internal/files/index"}},
	{of: []string{"internal/files/manifest"}, may: []string{"", "internal/blob", "internal/files/format", "internal/files/limits", "internal/files/pack", "internal/files/spool"}},
	{of: []string{"internal/files/checkout"}, may: []string{"internal/files/format", "internal/files/manifest", "internal/files/ordered", "internal/files/pack"}},
	{of: []string{"internal/files/archive", "internal/files/diff"}, may: []string{"", "internal/blob", "internal/files/format", "internal/files/limits", "internal/files/limiter", "internal/files/lru", "internal/files/manifest", "internal/files/pack"}},
	{of: []string{"internal/files/gc"}, may: []string{"", "internal/blob", "internal/store", "internal/files/format", "internal/files/manifest", "internal/files/pack"}},
	{of: []string{"internal/files/check"}, may: []string{"internal/blob", "internal/files/format", "internal/files/gc", "internal/files/manifest", "internal/files/pack"}},
	{of: []string{"internal/files/commit"}, may: []string{"", "internal/blob", "internal/files/format", "internal/files/gc", "internal/files/manifest", "internal/files/ordered", "internal/files/pack", "internal/files/spool"}},
	{of: []string{"internal/files/scan"}, may: []string{"", "internal/files/commit", "internal/files/format", "internal/files/limits", "internal/files/manifest", "internal/files/pack", "internal/files/spool"}},
	{of: []string{"internal/files/exchange"}, may: []string{"", "internal/blob", "internal/files/commit", "internal/files/format", "internal/files/gc", "internal/files/limits", "internal/files/manifest", "internal/files/pack", "internal/files/scan", "internal/files/treewire"}},
	{of: []string{"internal/files"}, may: []string{"", "internal/blob", "internal/files/archive", "internal/files/check", "internal/files/checkout", "internal/files/commit", "internal/files/diff", "internal/files/exchange", "internal/files/format", "internal/files/gc", "internal/files/limits", "internal/files/manifest", "internal/files/pack", "internal/files/scan"}, std: []string{"net/http", "database/sql"}},
	{of: []string{"internal/files/treewire"}},
	{of: []string{"internal/store/sqlstore"}, may: []string{"", "internal/store", "internal/store/groupcommit"}},
	{of: []string{"internal/store/sqlite", "internal/store/postgres"}, may: []string{"", "internal/store", "internal/store/sqlstore", "internal/store/groupcommit"}},
	{of: []string{"internal/blob/localfs", "internal/blob/s3"}, may: []string{"", "internal/blob"}},
	{of: []string{"internal/blob/sealed"}, may: []string{"", "internal/blob", "internal/sealing"}},
	// What runs inside the sandbox as our agent knows nothing of the service.
	{of: []string{"internal/assistant"}, may: []string{"", "internal/framework/assistant/protocol", "internal/framework/transcript", "internal/llm", "internal/jsonschema"}, std: []string{"database/sql"}},
	{of: []string{"internal/llm"}, may: []string{""}},
	{of: []string{"internal/sealing/keyring"}, may: []string{"", "internal/store", "internal/sealing"}, std: []string{"net/http", "database/sql"}},
	{of: []string{"internal/notify/inproc"}, may: []string{"", "internal/notify"}},
	// Between processes it wakes its own process as inproc does.
	{of: []string{"internal/notify/pgnotify"}, may: []string{"", "internal/notify", "internal/notify/inproc"}},
	{of: []string{"internal/sandbox/fake"}, may: []string{"", "internal/sandbox"}},
	// What is part of every sandbox's start imports little.
	{of: []string{"internal/sandbox/namespace/setup"}, may: []string{"internal/sandbox/layout", "internal/sandbox/agentinit", "internal/sandbox/capture", "internal/sandbox/rootfs", "internal/sandbox/idmap", "internal/sandbox/overlay"}, std: []string{"net", "net/http", "encoding/json"}},
	{of: []string{"internal/sandbox/agentinit"}, may: []string{"internal/sandbox/layout"}, std: []string{"net", "net/http", "encoding/json"}},
	// The tools are the API's client, whoever carries its requests.
	{of: []string{"internal/mcp"}, may: []string{"", "client"}, std: []string{"database/sql"}},
	{of: []string{"internal/http/api"}, may: slices.Concat([]string{"", "api", "internal/mcp", "internal/files", "internal/files/treewire"}, ports, useCases), std: []string{"database/sql"}},
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func TestDirectionOfDependencies(t *testing.T) {
	t.Parallel()
	byPath := map[string]pkg{}
	for _, p := range list(t) {
		byPath[strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")] = p
	}
	for _, r := range rules {
		for _, name := range r.of {
			p, ok := byPath[name]
			if !ok {
				t.Errorf("a rule speaks of package %q, which does not exist", name)
				continue
			}
			for _, imported := range p.Imports {
				if short, own := strings.CutPrefix(imported, module); own && !slices.Contains(r.may, strings.TrimPrefix(short, "/")) {
					t.Errorf("%s may not import %s", p.ImportPath, imported)
				}
				if slices.Contains(r.std, imported) {
					t.Errorf("%s may not import %s", p.ImportPath, imported)
				}
			}
		}
	}
}

func TestOnlyServerWiresAdapters(t *testing.T) {
	t.Parallel()
	adapters := []string{"internal/store/sqlite", "internal/store/postgres", "internal/blob/localfs", "internal/blob/s3", "internal/blob/sealed", "internal/notify/inproc", "internal/notify/pgnotify"}
	for _, p := range list(t) {
		short := strings.TrimPrefix(p.ImportPath, module+"/")
		if short == "internal/app" || slices.Contains(adapters, short) {
			continue
		}
		for _, a := range adapters {
			if slices.Contains(p.Imports, module+"/"+a) {
				t.Errorf("%s imports the adapter %s; only internal/app wires adapters", p.ImportPath, a)
			}
		}
	}
}

func TestDictionaryImportsTheStandardLibraryOnly(t *testing.T) {
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
