package definition_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
)

func TestParseChecksNetwork(t *testing.T) {
	t.Parallel()
	_, err := definition.Parse([]byte(`{"framework":"shell",
		"network":{"mode":"restricted","allow":["example.com","*.a.test:443","10.0.0.1/8"],"inspect":["*.b.test","10.0.0.0/8"]},
		"secrets":{"KEY":{"hosts":["api.example.com","https://x.test"]}}}`))
	e, ok := errors.AsType[*stint.Error](err)
	if !ok {
		t.Fatalf("%v is not a public error", err)
	}
	var params []string
	for _, d := range e.Details {
		params = append(params, d.Param)
	}
	if diff := cmp.Diff([]string{"network.allow[2]", "network.inspect[1]", "secrets.KEY.hosts[1]"}, params); diff != "" {
		t.Error(diff)
	}
}
