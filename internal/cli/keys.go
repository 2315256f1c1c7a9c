package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/sealing/keyring"
)

func (a *app) keys() *cobra.Command {
	c := a.parent("keys", "Handle the keys that stored files and secrets are encrypted under", a.keysList(), a.keysRotate())
	c.Long = `Keys handles the keys of the installation on this machine, as the owner of its
data folder. It speaks to the server where one runs, and opens the data folder
where none does.`
	return c
}

func dataFlag(c *cobra.Command, data *string) {
	c.Flags().StringVar(data, "data", "", "data folder of the server (also STINT_DATA)")
}

func (a *app) keysList() *cobra.Command {
	var data string
	c := &cobra.Command{
		Use: "list", Short: "List the keys of organisations: numbers and dates, never a key", Args: exactly(), Aliases: []string{"ls"},
	}
	dataFlag(c, &data)
	c.RunE = a.do(func(ctx context.Context, _ *cobra.Command, _ []string) error {
		cfg, err := a.serverConfig(data)
		if err != nil {
			return err
		}
		list, err := a.askKeys(ctx, cfg, http.MethodGet, nil, Keys.List)
		if err != nil {
			return err
		}
		return a.printKeys(list)
	})
	return c
}

func (a *app) keysRotate() *cobra.Command {
	var data, org string
	var installation bool
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Make new keys; what was stored before stays readable",
		Long: `Rotate gives each organisation a new key, or the one that --org names. What is
stored from now on is encrypted under it, at other servers of the same database
after a minute. Older keys are kept for what was stored before; no file is
written anew.

With --installation the key in the data folder is replaced: everything that the
database keeps sealed under it is sealed anew, and the older key is forgotten.
Stop every server of the database first, and copy the file 'key' to the others
afterwards. Links, cursors and remembered answers to repeated requests end. If
it is interrupted, run it again.`,
		Args: exactly(),
	}
	dataFlag(c, &data)
	c.Flags().StringVar(&org, "org", "", "name or identifier of one organisation")
	c.Flags().BoolVar(&installation, "installation", false, "replace the installation's key")
	c.RunE = a.do(func(ctx context.Context, c *cobra.Command, _ []string) error {
		if installation && org != "" {
			return usage(c, "--org and --installation exclude each other")
		}
		cfg, err := a.serverConfig(data)
		if err != nil {
			return err
		}
		if installation {
			return a.rotateInstallation(ctx, cfg)
		}
		rotated, err := a.askKeys(ctx, cfg, http.MethodPost, map[string]string{"org": org}, func(k Keys, ctx context.Context) ([]keyring.Info, error) {
			return k.RotateAll(ctx, org)
		})
		if err != nil {
			return err
		}
		if len(rotated) == 0 && !a.json {
			a.note("No files are encrypted here yet; the first key is made with the first.")
		}
		return a.printKeys(rotated)
	})
	return c
}

// askKeys asks the server that runs, or else opens the installation.
func (a *app) askKeys(ctx context.Context, cfg config.Config, method string, in any, offline func(Keys, context.Context) ([]keyring.Info, error)) (list []keyring.Info, err error) {
	status, body, err := askSocket(ctx, cfg.Socket(), method, "/keys", in)
	if errors.Is(err, errNoSocket) {
		k, err := a.OpenKeys(ctx, cfg)
		if err != nil {
			return nil, err
		}
		list, err = offline(k, ctx)
		return list, errors.Join(err, k.Close())
	}
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, refusal(status, body)
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("the server's answer is no list of keys (%w): is it of another version?", err)
	}
	return list, nil
}

func (a *app) printKeys(list []keyring.Info) error {
	items := func(yield func(keyring.Info, error) bool) {
		for _, i := range list {
			if !yield(i, nil) {
				return
			}
		}
	}
	return printList(a, items, 0, "ORGANISATION NUMBER CURRENT CREATED", func(i keyring.Info) []string {
		owner, current := i.OrgName, ""
		if owner == "" {
			owner = i.Org
		}
		if owner == "" {
			owner = "(none)"
		}
		if i.Current {
			current = "yes"
		}
		return []string{owner, strconv.FormatUint(uint64(i.Number), 10), current, i.CreatedAt.String()}
	})
}

func (a *app) rotateInstallation(ctx context.Context, cfg config.Config) error {
	k, err := a.OpenKeys(ctx, cfg)
	if err != nil {
		return err
	}
	count, err := k.RotateInstallation(ctx)
	if err := errors.Join(err, k.Close()); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]int{"resealed": count})
	}
	a.note("The installation has a new key; sealed anew: %d.", count)
	if cfg.Database != "" {
		a.note("Copy the file 'key' to the data folder of each other server of this database before it starts.")
	}
	return nil
}
