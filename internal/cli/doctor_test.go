package cli_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/sandbox"
)

// TestInterruptedDoctor checks that doctor prints each result when it is known, and that
// an interrupt ends a check that hangs, and doctor.
func TestInterruptedDoctor(t *testing.T) {
	t.Parallel()
	p := startCLI(t, nil)
	hanging, cleaned := make(chan struct{}), false
	p.env.Isolations = func() []string { return []string{"slow"} }
	p.env.Probe = func(ctx context.Context, _ config.Config, name string) sandbox.Report {
		if name == "slow" {
			close(hanging)
			<-ctx.Done()
			cleaned = true
		}
		return sandbox.Report{Driver: name, Available: true}
	}
	p.start("doctor")
	<-hanging
	p.out.await(t, "namespace works")
	p.interrupts <- 0
	if code := p.exit(t); code != 130 || !cleaned || strings.Contains(p.out.String(), "configuration") {
		t.Errorf("exit code %d, check ended: %t, output:\n%s", code, cleaned, p.out)
	}
}
