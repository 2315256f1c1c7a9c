package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

// lastRef is the reference to the user's newest run, to its session or checkpoint, or to
// the newest object of another kind.
const lastRef = "@last"

// minPrefix is the minimum number of characters of a shortened ID after its prefix.
const minPrefix = 4

// maxCandidates is the maximum number of IDs in the error of an ambiguous reference.
const maxCandidates = 8

// nouns contains the kinds of objects that references can name, by the prefix of their IDs.
var nouns = map[string]string{
	stint.PrefixRun: "run", stint.PrefixSession: "session", stint.PrefixAgent: "agent", stint.PrefixCheckpoint: "checkpoint",
	stint.PrefixArtifact: "artifact", stint.PrefixVolume: "volume", stint.PrefixToken: "token",
}

// resolve returns the ID that a reference stands for: an ID with the prefix, the unique
// beginning of one, with or without the prefix, or lastRef. It returns any other
// reference unchanged, and the server responds that it does not exist. A complete ID
// costs no request.
func resolve(ctx context.Context, c *client.Client, prefix, ref string) (string, error) {
	if stint.IsID(prefix, ref) {
		return ref, nil
	}
	switch {
	case ref == lastRef && prefix == stint.PrefixRun:
		run, err := lastRun(ctx, c)
		return run.ID, err
	case ref == lastRef && prefix == stint.PrefixSession:
		return lastSession(ctx, c)
	case ref == lastRef:
		ids, err := c.IDs(ctx, prefix, 1)
		if err == nil && len(ids) == 0 {
			err = fmt.Errorf("there is no %s yet, so %s is not known", nouns[prefix], lastRef)
		}
		if err != nil {
			return "", err
		}
		return ids[0], nil
	}
	beginning := prefix + strings.TrimPrefix(ref, prefix)
	if !stint.IsIDPrefix(prefix, beginning) || len(beginning) < len(prefix)+minPrefix {
		return ref, nil
	}
	ids, err := c.IDs(ctx, beginning, maxCandidates+1)
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		return ref, nil
	case len(ids) > 1:
		return "", ambiguous(prefix, ref, ids)
	}
	return ids[0], nil
}

// lastRun returns the user's newest run.
func lastRun(ctx context.Context, c *client.Client) (stint.RunSummary, error) {
	for run, err := range c.Runs.List(ctx, client.RunFilter{CreatedBy: "me", PageSize: 1}) {
		return run, err
	}
	return stint.RunSummary{}, fmt.Errorf("you have not created a run yet, so %s is not known", lastRef)
}

// lastSession returns the ID of the session of the user's newest run.
func lastSession(ctx context.Context, c *client.Client) (string, error) {
	last, err := lastRun(ctx, c)
	if err != nil {
		return "", err
	}
	run, err := c.Runs.Get(ctx, last.ID)
	if err != nil {
		return "", err
	}
	return run.SessionID, nil
}

// ambiguous returns the error for a reference that stands for several IDs.
func ambiguous(prefix, ref string, ids []string) error {
	more := ""
	if len(ids) > maxCandidates {
		ids, more = ids[:maxCandidates], ", …"
	}
	return fmt.Errorf("'%s' stands for several %ss: %s%s; give more characters of the ID", ref, nouns[prefix], strings.Join(ids, ", "), more)
}

// isShortened reports whether a reference, which may be a name, can also be lastRef or the
// beginning of an ID. Names can look like the beginning of an ID without its prefix.
func isShortened(prefix, ref string) bool {
	return ref == lastRef || strings.HasPrefix(ref, prefix) ||
		len(ref) >= minPrefix && stint.IsIDPrefix(prefix, prefix+ref)
}

// named returns the object that a name or any other reference stands for. find returns
// the object with a name or ID. A name takes precedence over the beginning of an ID.
func named[T any](ctx context.Context, c *client.Client, prefix, ref string, find func(context.Context, string) (*T, error)) (*T, error) {
	if ref != lastRef && (!strings.HasPrefix(ref, prefix) || stint.IsID(prefix, ref)) {
		found, err := find(ctx, ref)
		if !client.IsCode(err, stint.CodeResourceNotFound) || !isShortened(prefix, ref) || stint.IsID(prefix, ref) {
			return found, err
		}
	}
	id, err := resolve(ctx, c, prefix, ref)
	if err != nil {
		return nil, err
	}
	return find(ctx, id)
}

// findAgent returns the agent that a reference stands for.
func findAgent(ctx context.Context, c *client.Client, ref string) (*stint.Agent, error) {
	return named(ctx, c, stint.PrefixAgent, ref, c.Agents.Find)
}

// findTree returns the volume or artifact that a reference stands for.
func findTree(ctx context.Context, c *client.Client, kind stint.FileSetKind, ref string) (*stint.FileSet, error) {
	return named(ctx, c, kind.Prefix(), ref, treesOf(c, kind).Find)
}

// resolveCheckpoint returns the ID of the checkpoint that a reference stands for: the ID
// of a checkpoint, or a reference to a run, which stands for the checkpoint of that run.
// The server has no list of checkpoints that could complete a shortened ID.
func resolveCheckpoint(ctx context.Context, c *client.Client, ref string) (string, error) {
	if ref != lastRef && !strings.HasPrefix(ref, stint.PrefixRun) {
		shortened := !stint.IsID(stint.PrefixCheckpoint, ref) && stint.IsIDPrefix(stint.PrefixCheckpoint, ref)
		if shortened && len(ref) >= len(stint.PrefixCheckpoint)+minPrefix {
			return "", fmt.Errorf("'%s' is not a complete ID, and IDs of checkpoints cannot be shortened: give the run of the checkpoint, or %s", ref, lastRef)
		}
		return ref, nil
	}
	id, err := resolve(ctx, c, stint.PrefixRun, ref)
	if err != nil {
		return "", err
	}
	run, err := c.Runs.Get(ctx, id)
	if err != nil {
		return "", err
	}
	if run.CheckpointID == nil {
		return "", fmt.Errorf("the run %s is %s and has no checkpoint", id, run.Status)
	}
	return *run.CheckpointID, nil
}

// resolveToken returns the ID of the token that a reference stands for: a name, or any
// reference that resolve accepts except lastRef.
func resolveToken(ctx context.Context, c *client.Client, ref string) (string, error) {
	if strings.HasPrefix(ref, stint.PrefixToken) {
		return resolve(ctx, c, stint.PrefixToken, ref)
	}
	var ids []string
	for t, err := range c.Tokens.List(ctx) {
		if err != nil {
			return "", err
		}
		if t.Name == ref {
			ids = append(ids, t.ID)
		}
	}
	switch {
	case len(ids) == 1:
		return ids[0], nil
	case len(ids) > 1:
		return "", ambiguous(stint.PrefixToken, ref, ids)
	case ref == lastRef: // the newest token is often the one in use
		return ref, nil
	}
	return resolve(ctx, c, stint.PrefixToken, ref)
}

// nameOf returns the form of an object in messages: its name, or the complete ID if the
// user gave that.
func nameOf(prefix, ref, name string) string {
	if stint.IsID(prefix, ref) {
		return ref
	}
	return name
}

// cutRef splits REF@VERSION, where REF may be lastRef. given reports whether there is a
// version.
func cutRef(s string) (ref, version string, given bool) {
	if rest, ok := strings.CutPrefix(s, lastRef); ok && (rest == "" || rest[0] == '@') {
		version, given = strings.CutPrefix(rest, "@")
		return lastRef, version, given
	}
	return strings.Cut(s, "@")
}
