package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/maintenance"
)

// Maintenance looks after an installation whose server does not run; Close gives it
// up.
type Maintenance interface {
	Collect(ctx context.Context, o maintenance.CollectOptions, tell func(maintenance.Report)) error
	Check(ctx context.Context, o maintenance.CheckOptions, tell func(maintenance.Report)) error
	Close() error
}

func (a *app) gc() *cobra.Command {
	var data, grace string
	var dryRun bool
	c := &cobra.Command{
		Use:   "gc",
		Short: "Delete files of the storage that nothing names any more",
		Long: `Gc deletes what no version, checkpoint or run of any organisation names any
more. A server does the same by itself (see --gc-every of 'stint serve'); this
does it now, through the server that runs on this data folder or, where none
does, by itself. It can go on beside runs and pushes.

What is found to be unnamed is deleted by a later collection, when it has been so
for the grace time. With --grace 0 it goes at once: use that only while nothing
else stores files.`,
		Args: exactly(),
	}
	dataFlag(c, &data)
	c.Flags().StringVar(&grace, "grace", "", "how long what nothing names stays, such as 24h (default: as the server is configured)")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "tell what would be done, do nothing")
	c.RunE = a.do(func(ctx context.Context, c *cobra.Command, _ []string) error {
		cfg, err := a.serverConfig(data)
		if err != nil {
			return err
		}
		in := map[string]any{"dryRun": dryRun}
		o := maintenance.CollectOptions{Grace: cfg.GCGrace, DryRun: dryRun}
		if grace != "" {
			if o.Grace, err = config.ParseDuration(grace); err != nil {
				return usage(c, "--grace: %s", err)
			}
			in["graceMs"] = o.Grace.Milliseconds()
		}
		return a.maintain(ctx, cfg, "/gc", in, func(u Maintenance, tell func(maintenance.Report)) error { return u.Collect(ctx, o, tell) })
	})
	return c
}

// errDamaged ends a check that found what it could not repair.
var errDamaged = errors.New("something that is stored is damaged")

func (a *app) fsck() *cobra.Command {
	var data string
	var o maintenance.CheckOptions
	c := &cobra.Command{
		Use:   "fsck",
		Short: "Check that everything that is stored is there and whole",
		Long: `Fsck looks at everything that versions and checkpoints of any organisation are
made of, reads every byte back and names what is damaged and where it shows. It
asks the server that runs on this data folder or, where none does, looks by
itself. The exit code is 1 when damage is left.

With --repair what is damaged is restored from other copies of the same content.
Where there is none, push the files again, to whatever volume, and repair once
more: that heals the old versions, too.`,
		Args: exactly(),
	}
	dataFlag(c, &data)
	c.Flags().BoolVar(&o.Repair, "repair", false, "restore what can be")
	c.Flags().BoolVar(&o.Quick, "quick", false, "look at what there is, do not read every byte")
	c.RunE = a.do(func(ctx context.Context, _ *cobra.Command, _ []string) error {
		cfg, err := a.serverConfig(data)
		if err != nil {
			return err
		}
		left := false
		err = a.maintain(ctx, cfg, "/fsck", o, func(u Maintenance, tell func(maintenance.Report)) error {
			return u.Check(ctx, o, func(l maintenance.Report) {
				left = left || l.Checked != nil && l.Done && l.Checked.Damaged > l.Checked.Repaired
				tell(l)
			})
		})
		if err == nil && left {
			err = errDamaged
		}
		return err
	})
	return c
}

// maintain asks the server that runs, or else opens the installation.
func (a *app) maintain(ctx context.Context, cfg config.Config, path string, in any, offline func(Maintenance, func(maintenance.Report)) error) (err error) {
	show := &maintenanceView{a: a, shown: a.Now()}
	defer show.clear()
	answer, err := openSocket(ctx, cfg.Socket(), http.MethodPost, path, in)
	if errors.Is(err, errNoSocket) {
		u, err := a.OpenMaintenance(ctx, cfg)
		if err != nil {
			return err
		}
		return errors.Join(offline(u, show.line), show.err, u.Close())
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
		return refusal(answer.StatusCode, body)
	}
	return errors.Join(show.all(answer.Body), show.err)
}

// maintenanceView shows what is done: the last state on a terminal while it goes on,
// and the end of each organisation.
type maintenanceView struct {
	a       *app
	shown   time.Time
	visible bool
	err     error // of the first line that could not be written
	damaged bool
}

// all reads the lines of a server's answer.
func (v *maintenanceView) all(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var l struct {
			maintenance.Report
			Error string `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("the server's answer makes no sense (%w): is it of another version?", err)
		}
		if l.Error != "" {
			return errors.New(l.Error)
		}
		v.line(l.Report)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if v.damaged {
		return errDamaged
	}
	return nil
}

func (v *maintenanceView) line(l maintenance.Report) {
	if !l.Done {
		v.progress(l)
		return
	}
	v.clear()
	v.damaged = v.damaged || l.Checked != nil && l.Checked.Damaged > l.Checked.Repaired
	err := v.end(l)
	if v.err == nil {
		v.err = err
	}
}

func (v *maintenanceView) progress(l maintenance.Report) {
	now := v.a.Now()
	if v.a.json || !v.a.styled(stderr) || now.Sub(v.shown) < redraw {
		return
	}
	v.shown, v.visible = now, true
	fmt.Fprintf(v.a.Stderr, "\r\x1b[K%s: %s", l.Org, maintenanceText(l))
}

func (v *maintenanceView) clear() {
	if v.visible {
		fmt.Fprint(v.a.Stderr, "\r\x1b[K")
		v.visible = false
	}
}

func (v *maintenanceView) end(l maintenance.Report) error {
	if v.a.json {
		return v.a.printJSON(l)
	}
	if _, err := fmt.Fprintf(v.a.Stdout, "%s: %s\n", l.Org, maintenanceText(l)); err != nil || l.Checked == nil {
		return err
	}
	for _, d := range l.Checked.Damages {
		state := "damaged"
		if d.Repaired {
			state = "repaired"
		}
		if _, err := fmt.Fprintf(v.a.Stdout, "  %s %s: %s, %d files and folders\n", v.a.colour(stdout, yellow, state), d.Key, d.Problem, d.Uses); err != nil {
			return err
		}
		for _, u := range d.Used {
			where := u.Path
			if u.Following {
				where += " and what follows"
			}
			if _, err := fmt.Fprintf(v.a.Stdout, "    %s  %s\n", plain(u.Name), plain(where)); err != nil {
				return err
			}
		}
	}
	return nil
}

// maintenanceText tells of one organisation in a line.
func maintenanceText(l maintenance.Report) string {
	if l.Busy {
		return "somebody else looks after it just now"
	}
	if c := l.Collected; c != nil {
		return fmt.Sprintf("%d trees in %d packs; %d objects deleted, %d packs stored anew, %s freed; %d objects wait for a later collection",
			c.Trees, c.Packs, c.Deleted, c.Compacted, bytesText(max(0, c.Freed)), c.Marked)
	}
	c := l.Checked
	text := fmt.Sprintf("%d trees in %d packs, %s read", c.Trees, c.Packs, bytesText(c.Bytes))
	if c.Damaged == 0 {
		return text + "; all is well"
	}
	return text + fmt.Sprintf("; %d objects damaged, %d of them repaired", c.Damaged, c.Repaired)
}
