package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/maintenance"
)

// Maintenance collects garbage in an installation and checks its stored files while
// its server is stopped. Close releases the installation.
type Maintenance interface {
	Collect(ctx context.Context, o maintenance.CollectOptions, report func(maintenance.Report)) error
	Check(ctx context.Context, o maintenance.CheckOptions, report func(maintenance.Report)) error
	Close() error
}

// maintain sends a request to the socket of the running server and prints the reports
// in its response. If no server is running, maintain opens the installation and calls
// offline.
func (a *app) maintain(ctx context.Context, cfg config.Config, path string, in any, offline func(Maintenance, func(maintenance.Report)) error) (err error) {
	show := &maintenanceView{a: a, status: a.statusLine()}
	defer show.status.clear()
	answer, err := openSocket(ctx, cfg.Socket(), http.MethodPost, path, in)
	if errors.Is(err, errNoSocket) {
		u, err := a.OpenMaintenance(ctx, cfg)
		if err != nil {
			return err
		}
		return errors.Join(offline(u, show.line), show.result(), u.Close())
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
		return refusal(answer.StatusCode, body)
	}
	return errors.Join(show.all(answer.Body), show.result())
}

// maintenanceView prints progress on a terminal, and the result for each
// organisation.
type maintenanceView struct {
	a       *app
	status  *statusLine
	err     error // the first error while writing
	damaged bool
}

// result returns the first error while writing, or errDamaged if damage is left.
func (v *maintenanceView) result() error {
	if v.err == nil && v.damaged {
		return errDamaged
	}
	return v.err
}

// all prints the reports in a server's response, which has one JSON value a line.
func (v *maintenanceView) all(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var l struct {
			maintenance.Report
			Error string `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("the server's answer cannot be read (%w): is it another version?", err)
		}
		if l.Error != "" {
			return errors.New(l.Error)
		}
		v.line(l.Report)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}

func (v *maintenanceView) line(l maintenance.Report) {
	if !l.Done {
		v.status.show(v.a.Now(), func() string { return l.Org + ": " + maintenanceText(l) })
		return
	}
	v.status.clear()
	v.damaged = v.damaged || l.Checked != nil && l.Checked.Damaged > l.Checked.Repaired
	err := v.end(l)
	if v.err == nil {
		v.err = err
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
		if _, err := fmt.Fprintf(v.a.Stdout, "  %s %s: %s, used by %s\n", v.a.colour(stdout, yellow, state), d.Key, d.Problem, count(d.Uses, "path")); err != nil {
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

// maintenanceText returns the report for one organisation on one line.
func maintenanceText(l maintenance.Report) string {
	if l.Busy {
		return "another process is working on it"
	}
	if c := l.Collected; c != nil {
		return fmt.Sprintf("%s in %s; %s deleted, %s stored anew, %s freed; for a later collection: %s",
			count(c.Trees, "tree"), count(c.Packs, "pack"), count(c.Deleted, "object"), count(c.Compacted, "pack"), bytesText(max(0, c.Freed)), count(c.Marked, "object"))
	}
	c := l.Checked
	text := fmt.Sprintf("%s in %s, %s read", count(c.Trees, "tree"), count(c.Packs, "pack"), bytesText(c.Bytes))
	if c.Damaged == 0 {
		return text + "; all is well"
	}
	return text + fmt.Sprintf("; %s damaged, %d repaired", count(c.Damaged, "object"), c.Repaired)
}
