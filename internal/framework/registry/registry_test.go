package registry_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/framework/registry"
)

func TestAllMatchesCatalog(t *testing.T) {
	t.Parallel()
	var names []string
	for _, f := range registry.All() {
		names = append(names, f.Info().Name)
	}
	if diff := cmp.Diff(catalog.Names(), names); diff != "" {
		t.Errorf("names (-catalog +registry):\n%s", diff)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	for _, name := range catalog.Names() {
		f, err := registry.Find(&stint.Definition{Framework: name})
		if err != nil || f.Info().Name != name {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	_, err := registry.Find(&stint.Definition{Framework: "other"})
	if _, ok := errors.AsType[*stint.Error](err); !ok {
		t.Errorf("unknown framework: %v", err)
	}
}
