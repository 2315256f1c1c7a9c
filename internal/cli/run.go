package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/config"
)

// runFlags are the flags of commands that start a run.
type runFlags struct {
	vars, secrets, volumes, metadata []string
	artifact, version, timeout, pull string
	model                            string
	priority                         int
	limits                           stint.Limits
	detach, exitCode                 bool
}

// add adds the flags to a command. version is the agent's version by default.
func (f *runFlags) add(c *cobra.Command, version string) {
	flags := c.Flags()
	flags.StringArrayVar(&f.vars, "var", nil, "variable K=V for the agent (repeatable)")
	flags.StringArrayVar(&f.secrets, "secret", nil, "secret K=V for the agent; K alone takes the value of the environment variable K (repeatable)")
	flags.StringArrayVar(&f.volumes, "volume", nil, "volume N=V: use version V of volume N; N alone the latest (repeatable)")
	flags.StringVar(&f.artifact, "artifact", "", "artifact N[@V]: start from version V of artifact N and store the result in it")
	flags.StringVar(&f.version, "agent-version", "", "version of the agent (default "+version+")")
	flags.StringVar(&f.timeout, "timeout", "", "time limit such as 90s or 10m")
	flags.StringVar(&f.model, "model", "", "model, instead of the one in the agent's definition")
	flags.Int64Var(&f.limits.MaxTokens, "max-tokens", 0, "maximum number of input and output tokens; not more than the agent's limit")
	flags.Float64Var(&f.limits.MaxCostUSD, "max-cost", 0, "maximum cost in US dollars, such as 0.50; not more than the agent's limit")
	flags.Int64Var(&f.limits.MaxTurns, "max-turns", 0, "maximum number of responses of the model; not more than the agent's limit")
	flags.StringArrayVar(&f.metadata, "metadata", nil, "label K=V of the run (repeatable)")
	flags.IntVar(&f.priority, "priority", 0, "0 to 9; higher ones start earlier")
	flags.StringVar(&f.pull, "pull", "", "folder to write the artifact into when the run has ended")
	flags.BoolVar(&f.exitCode, "exit-code", false, "exit with the exit code of the agent; see above")
	flags.BoolVarP(&f.detach, "detach", "d", false, "print the run's ID and do not follow it")
}

const followText = `
The agent's output is printed on standard output and standard error; messages
about the run are printed on standard error. On a terminal, control sequences
other than colours are made visible, unless --raw is given. Text that an agent
writes to both at almost the same time can change places.

PROMPT '-' reads the prompt from standard input. Ctrl-C offers to cancel the run.
After a second Ctrl-C, or if the terminal or the connection is lost, the run
continues.

The exit code is 0 if the run completed, 124 if it exceeded its time or idle limit,
130 if it was cancelled or continues, and 1 if it failed. With --exit-code, the exit
code of a run that completed or failed is that of the agent, or 1 if there is none or
if the run failed although the agent exited with 0.`

func (a *app) run() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run AGENT[@VERSION] PROMPT",
		Short: "Start a run and follow it",
		Long:  "Start an agent with a prompt and follow it until it has ended.\n" + followText,
		Args:  exactly("AGENT", "PROMPT"),
	}
	f.add(c, "latest")
	a.rawFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		var n stint.NewRun
		n.Agent, n.AgentVersion, _ = cutRef(args[0])
		return a.start(c, &f, n, args[1])
	}
	return c
}

// resumeFrom returns the command "resume" or "continue". Resume starts from a
// checkpoint, and continue starts from the last run of a session.
func (a *app) resumeFrom(verb string) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use: "continue SESSION PROMPT", Short: "Continue a session after its last run",
		Long: "Start the next run of a session, with the conversation of its last run\nand the latest agent and volumes. The run starts from the current version of the\nsession's artifact if that contains the session's changes, and otherwise from the\nsession's newest version.\n" + followText,
		Args: exactly("SESSION", "PROMPT"),
	}
	version := "latest"
	if verb == "resume" {
		version = "that of the checkpoint"
		c.Use, c.Short = "resume CHECKPOINT PROMPT", "Start a new session from a checkpoint"
		c.Long = "Start a run from a checkpoint, with the conversation, agent, artifact, and\nvolumes of that time, in a new session. CHECKPOINT can also be a run, which stands\nfor its checkpoint.\n" + followText
		c.Args = exactly("CHECKPOINT", "PROMPT")
	}
	f.add(c, version)
	a.rawFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		n := stint.NewRun{SessionID: args[0]}
		if verb == "resume" {
			n = stint.NewRun{CheckpointID: args[0]}
		}
		return a.start(c, &f, n, args[1])
	}
	return c
}

// start creates a run and follows it, or prints its ID if --detach is set.
func (a *app) start(c *cobra.Command, f *runFlags, n stint.NewRun, prompt string) error {
	var err error
	if n.Prompt, err = a.prompt(c.Context(), prompt); err != nil {
		return err
	}
	if err := a.fill(c, f, &n); err != nil {
		return err
	}
	server, err := a.follower()
	if err != nil {
		return err
	}
	run, err := a.createRun(c.Context(), &n)
	if err != nil {
		return err
	}
	if f.detach {
		return a.printLine(run, "%s", run.ID)
	}
	return a.followRun(c.Context(), server, run.ID, f)
}

// createRun creates a run. An interrupt cancels the request. The request may contain
// references, which createRun replaces.
func (a *app) createRun(ctx context.Context, n *stint.NewRun) (run *stint.Run, err error) {
	quick, err := a.client()
	if err != nil {
		return nil, err
	}
	err = a.untilInterrupted(ctx, func(ctx context.Context) (err error) {
		if err := resolveRequest(ctx, quick, n); err != nil {
			return err
		}
		run, err = quick.Runs.Create(ctx, *n, nil)
		return err
	})
	return run, err
}

// resolveRequest replaces the references in a request. Names and complete IDs cost no
// request, except names that look like the beginning of an ID.
func resolveRequest(ctx context.Context, c *client.Client, n *stint.NewRun) (err error) {
	switch {
	case n.SessionID != "":
		n.SessionID, err = resolve(ctx, c, stint.PrefixSession, n.SessionID)
	case n.CheckpointID != "":
		n.CheckpointID, err = resolveCheckpoint(ctx, c, n.CheckpointID)
	case stint.IsID(stint.PrefixAgent, n.Agent):
		n.AgentID, n.Agent = n.Agent, ""
	case isShortened(stint.PrefixAgent, n.Agent):
		agent, err := findAgent(ctx, c, n.Agent)
		if err != nil {
			return err
		}
		n.AgentID, n.Agent = agent.ID, ""
	}
	if err != nil {
		return err
	}
	if n.ArtifactName == lastRef || strings.HasPrefix(n.ArtifactName, stint.PrefixArtifact) {
		artifact, err := findTree(ctx, c, stint.Artifacts, n.ArtifactName)
		if err != nil {
			return err
		}
		n.ArtifactName = artifact.Name
	}
	return nil
}

// maxPrompt is the maximum size of a prompt on standard input, in bytes.
const maxPrompt = 1 << 20

// prompt returns the text of a prompt, which "-" reads from standard input. An interrupt
// ends the reading.
func (a *app) prompt(ctx context.Context, text string) (string, error) {
	if text != "-" {
		return text, nil
	}
	var read []byte
	err := a.untilInterrupted(ctx, func(ctx context.Context) (err error) {
		read, err = a.readInput(ctx, maxPrompt+1)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the prompt: %w", err)
	}
	if len(read) > maxPrompt {
		return "", errors.New("the prompt on standard input is longer than 1 MiB: put it into a volume")
	}
	return string(read), nil
}

// fill checks the flags and copies them into the request.
func (a *app) fill(c *cobra.Command, f *runFlags, n *stint.NewRun) (err error) {
	if f.version != "" {
		n.AgentVersion = f.version
	}
	if f.priority < 0 || f.priority > 9 {
		return usage(c, "--priority: %d is not between 0 and 9", f.priority)
	}
	if f.detach && f.pull != "" {
		return usage(c, "--pull waits for the end of the run, which --detach does not")
	}
	if f.pull != "" && f.artifact == "" && n.SessionID == "" && n.CheckpointID == "" {
		return usage(c, "--pull needs --artifact NAME: the files of a run are kept in an artifact")
	}
	if f.detach && f.exitCode {
		return usage(c, "--exit-code waits for the end of the run, which --detach does not")
	}
	for name, value := range map[string]float64{"max-tokens": float64(f.limits.MaxTokens), "max-cost": f.limits.MaxCostUSD, "max-turns": float64(f.limits.MaxTurns)} {
		if c.Flags().Changed(name) && (!(value > 0) || math.IsInf(value, 0)) {
			return usage(c, "--%s must be a number greater than 0", name)
		}
	}
	if f.limits != (stint.Limits{}) {
		n.Limits = &f.limits
	}
	n.Priority, n.Model = f.priority, f.model
	if n.Timeout, err = timeout(f.timeout); err != nil {
		return usage(c, "--timeout: %s", err)
	}
	n.ArtifactName, n.ArtifactVersion, _ = cutRef(f.artifact)
	if n.Variables, err = pairs(f.vars, nil); err != nil {
		return usage(c, "--var: %s", err)
	}
	if n.Metadata, err = pairs(f.metadata, nil); err != nil {
		return usage(c, "--metadata: %s", err)
	}
	latest := func(string) (string, bool) { return "latest", true }
	if n.Volumes, err = pairs(f.volumes, latest); err != nil {
		return usage(c, "--volume: %s", err)
	}
	if n.Secrets, err = pairs(f.secrets, a.Environ); err != nil {
		return usage(c, "--secret: %s", err)
	}
	return nil
}

func timeout(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	d, err := config.ParseDuration(text)
	if err != nil {
		return "", err
	}
	return d.String(), nil
}

// pairs parses words of the form K=V. If a word has no '=', the word is the key and
// otherwise returns its value. If otherwise is nil, such a word is an error.
func pairs(words []string, otherwise func(string) (string, bool)) (map[string]string, error) {
	if len(words) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(words))
	for _, word := range words {
		key, value, given := strings.Cut(word, "=")
		if key == "" {
			return nil, fmt.Errorf("'%s' has no name before the '='", clip(word, 32))
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("'%s' is given twice", key)
		}
		if !given && otherwise != nil {
			if value, given = otherwise(key); !given {
				return nil, fmt.Errorf("the environment variable %s is not set; set it or write %s=VALUE", key, key)
			}
		}
		if !given {
			return nil, fmt.Errorf("'%s' is not of the form K=V", key)
		}
		out[key] = value
	}
	return out, nil
}

// exitOf returns the exitError for an ended run, or nil if the exit code is 0. If
// agentCode is set and the agent ended by itself, the exit code is that of the agent.
func exitOf(run *stint.Run, agentCode bool) error {
	switch run.Status {
	case stint.TimedOut:
		return exitError(exitTimeout)
	case stint.Cancelled:
		return exitError(exitCancelled)
	}
	if agentCode && run.ExitCode != nil && *run.ExitCode != 0 {
		return exitError(*run.ExitCode)
	}
	if run.Status == stint.Completed {
		return nil
	}
	return exitError(exitFailed)
}

// pullArtifact writes the run's artifact into a directory.
func (a *app) pullArtifact(ctx context.Context, c *client.Client, run *stint.Run, dir string) error {
	if run.ArtifactName == nil || run.ArtifactVersion == nil {
		return fmt.Errorf("%s stored no artifact that could be written into %s", run.ID, dir)
	}
	tree, err := c.Artifacts.Find(ctx, *run.ArtifactName)
	if err != nil {
		return err
	}
	done, err := a.fetch(ctx, c, stint.Artifacts, tree.ID, *run.ArtifactVersion, a.path(dir), pullOptions{})
	if err != nil {
		return err
	}
	a.note("Wrote %s, %s, into %s.", count(done.Written.Files, "file"), bytesText(done.Written.Bytes), a.path(dir))
	return nil
}
