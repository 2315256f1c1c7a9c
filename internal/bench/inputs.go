package bench

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	api "github.com/stint-dev/stint/client"
)

// inputs measures what the size of a run's files costs the run, through a
// server.
func (l *lab) inputs(ctx context.Context) error {
	return l.withServer(ctx, func(s *service) error {
		c, err := api.New(api.Options{URL: "http://" + s.address, Token: s.token})
		if err != nil {
			return err
		}
		if err := l.starts(ctx, c); err != nil {
			return err
		}
		return l.appends(ctx, c)
	}, "--disk", "40GiB")
}

// fewFiles is the volume that a large one is compared with.
const fewFiles = 10

// starts compares the starts of runs with a small and a large volume.
func (l *lab) starts(ctx context.Context, c *api.Client) error {
	var few, many Sample
	var cold time.Duration
	for _, v := range []struct {
		name  string
		files int
		into  *Sample
	}{{"few", fewFiles, &few}, {"many", l.a.Entries, &many}} {
		if err := push(ctx, c.Volumes, v.name, func(w io.Writer) error { return manyFiles(w, v.files) }); err != nil {
			return err
		}
		agent := fmt.Sprintf(`{"name":%q,"framework":"shell","volumes":{%q:{"path":"/data"}}}`, v.name, v.name)
		if _, err := c.Agents.Create(ctx, json.RawMessage(agent)); err != nil {
			return err
		}
		first, took, err := l.starting(ctx, c, v.name)
		if err != nil {
			return err
		}
		*v.into, cold = took, first
	}
	m, anchor := latency(many), latency(few)
	row := Row{
		What: fmt.Sprintf("first output of a run with a volume of %d files that lies ready", l.a.Entries), Measured: m,
		Goals: []Goal{atMost("of a run with ten files", share(m.P50Ms, anchor.P50Ms), 1.25, "×")},
		Note:  fmt.Sprintf("%s ms when it has to be checked out first", number(milliseconds(cold))),
	}
	l.add(row.compare("with ten files", anchor, m.P50Ms, anchor.P50Ms))
	return nil
}

// starting measures runs from their creation to their first output; the first
// of them by itself.
func (l *lab) starting(ctx context.Context, c *api.Client, agent string) (first time.Duration, took Sample, err error) {
	var rest []time.Duration
	for i := range max(l.a.Samples/25, 2) + warmUps {
		begin := time.Now()
		r, err := c.Runs.Create(ctx, stint.NewRun{Agent: agent, Prompt: "echo hello"}, nil)
		if err != nil {
			return 0, nil, err
		}
		var at time.Duration
		for e, err := range c.Runs.Events(ctx, r.ID, 0) {
			if err != nil {
				return 0, nil, err
			}
			if e.Type == stint.EventOutput && at == 0 {
				at = time.Since(begin)
			}
		}
		switch {
		case i == 0:
			first = at
		case i >= warmUps:
			rest = append(rest, at)
		}
	}
	return first, SampleOf(rest), nil
}

// push stores a tar as a tree's version.
func push(ctx context.Context, trees *api.FileSets, name string, write func(io.Writer) error) error {
	t, err := trees.Create(ctx, name)
	if err != nil {
		return err
	}
	in, out := io.Pipe()
	var writing sync.WaitGroup
	writing.Go(func() { out.CloseWithError(write(out)) }) // ends with the reader
	_, _, err = trees.Push(ctx, t.ID, in, &api.PushOptions{ContentType: "application/x-tar"})
	err = errors.Join(err, in.Close())
	writing.Wait()
	return err
}

// appends measures how long a run's end takes that appended a line to one file
// of a large artifact.
func (l *lab) appends(ctx context.Context, c *api.Client) error {
	if err := push(ctx, c.Artifacts, "large", l.largeTree); err != nil {
		return err
	}
	if _, err := c.Agents.Create(ctx, json.RawMessage(`{"name":"writer","framework":"shell"}`)); err != nil {
		return err
	}
	var took []time.Duration
	for i := range max(l.a.Samples/50, 2) + warmUps {
		n := stint.NewRun{Agent: "writer", ArtifactName: "large", Prompt: fmt.Sprintf("echo line >>d%02d/f%06d", i, i)}
		r, err := c.Runs.Create(ctx, n, nil)
		if err == nil {
			r, err = c.Runs.Wait(ctx, r.ID)
		}
		if err != nil {
			return err
		}
		if r.Status != stint.Completed {
			return fmt.Errorf("a run ended %s: %s", r.Status, *r.Error)
		}
		t, err := storing(ctx, c, r.ID)
		if err != nil {
			return err
		}
		if i >= warmUps {
			took = append(took, t)
		}
	}
	m := latency(SampleOf(took))
	l.add(Row{
		What:     fmt.Sprintf("storing an artifact of %.1f GB in %d files after a line was appended to one", float64(l.a.ArtifactBytes)/1e9, l.a.ArtifactFiles),
		Measured: m, Goals: []Goal{atMost("p50", m.P50Ms, 100, "ms")},
	})
	return nil
}

// storing is how long a run's files took to store, as its log tells.
func storing(ctx context.Context, c *api.Client, run string) (time.Duration, error) {
	for e, err := range c.Runs.Logs(ctx, run, api.LogFilter{Type: stint.LogSystem}) {
		if err != nil {
			return 0, err
		}
		if ms, ok := e.Metadata["durationMs"].(float64); ok && e.Metadata["files"] != nil {
			return time.Duration(ms * float64(time.Millisecond)), nil
		}
	}
	return 0, fmt.Errorf("the log of %s does not tell how long storing took", run)
}

// largeTree writes a tar of many files that do not compress.
func (l *lab) largeTree(w io.Writer) error {
	t := tar.NewWriter(w)
	noise := rand.NewChaCha8([32]byte{2})
	size := l.a.ArtifactBytes / int64(l.a.ArtifactFiles)
	for i := range l.a.ArtifactFiles {
		h := &tar.Header{Name: fmt.Sprintf("d%02d/f%06d", i%100, i), Mode: 0o644, Size: size, Typeflag: tar.TypeReg, ModTime: epoch}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.CopyN(t, noise, size); err != nil {
			return err
		}
	}
	return t.Close()
}
