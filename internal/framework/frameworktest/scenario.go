package frameworktest

import (
	"flag"
	"testing"

	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/testkit/modeltest"
)

var record = flag.Bool("record", false, "play every scene with the real program and write the recordings anew; -update goes behind it")

// Scenario is a run of the real program with a scripted model.
type Scenario struct {
	Prompt    string
	Change    func(in *framework.Input) // changes the input; may be nil
	Options   Options
	Continues bool     // resumes the conversation of an earlier run that used a tool
	Always    bool     // runs in every test, not only with -record
	Want      []string // texts that the transcript must contain
	Failed    bool     // the run must not complete
}

// Play runs scenarios as subtests, each in its own directories. Without -record it
// runs only the scenarios with Always. input returns the framework's input for a
// model at the given URL.
func Play(t *testing.T, f framework.Framework, scenarios map[string]Scenario, input func(model string) framework.Input) {
	t.Helper()
	model := modeltest.Start(t)
	for name, sc := range scenarios {
		if sc.Always || *record {
			t.Run(name, func(t *testing.T) { sc.play(t, f, name, model.URL, input(model.URL)) })
		}
	}
}

func (sc Scenario) play(t *testing.T, f framework.Framework, name, model string, in framework.Input) {
	at := MakeDirs(t)
	if sc.Continues {
		in.Prompt = "[[run: echo first]]"
		before := Run(t, f, at, in, Options{})
		before.Completed(t)
		in.Resume = &before.Conversation
	}
	if in.Prompt = sc.Prompt; sc.Change != nil {
		sc.Change(&in)
	}
	ran := Run(t, f, at, in, sc.Options)
	ran.Transcript(t, sc.Want...)
	if !sc.Failed {
		ran.Completed(t)
	} else if ran.Verdict.Completed {
		t.Errorf("it completed:\n%s", ran.Said())
	}
	if *record {
		ran.record(t, name, at, model)
	}
}
