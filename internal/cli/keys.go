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
	c := a.parent("keys", "Manage the encryption keys of stored files and secrets", a.keysList(), a.keysRotate())
	c.Long = `Manage the keys of the installation on this machine, as the owner of its data
folder. The running server does the work; without one, the command opens the data
folder itself.`
	return c
}

func dataFlag(c *cobra.Command, data *string) {
	c.Flags().StringVar(data, "data", "", "data folder of the server (also STINT_DATA)")
}

func (a *app) keysList() *cobra.Command {
	var data string
	c := &cobra.Command{
		Use: "list", Short: "List numbers and dates of the organisations' keys", Args: exactly(), Aliases: []string{"ls"},
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
		Short: "Create new keys; existing files stay readable",
		Long: `Create a new key for each organisation, or for the one given by --org.
New files are encrypted with it; other servers of the same database use it within
a minute. Older keys are kept for existing files, which are not rewritten.

With --installation, the key in the data folder is replaced: all data that is
sealed with it in the database is sealed again, and the old key is deleted. Stop
all servers of the database first, and copy the file 'key' to the others
afterwards. Signed links, cursors, and stored responses to repeated requests
become invalid. If the command is interrupted, run it again.`,
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
		return a.printKeys(rotated)
	})
	return c
}

// askKeys sends a request to the socket of the running server and returns the keys in
// its response. If no server is running, askKeys opens the installation and calls
// offline.
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
		return nil, fmt.Errorf("the server's answer is not a list of keys (%w): is it another version?", err)
	}
	return list, nil
}

func (a *app) printKeys(list []keyring.Info) error {
	return printList(a, withoutErrors(list), 0, "No files are encrypted yet; the first key is created with the first file.", "ORGANISATION NUMBER CURRENT CREATED", func(i keyring.Info) []string {
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
	err = a.printResult(map[string]int{"resealed": count}, "The installation has a new key; values sealed again: %d.", count)
	if cfg.Database != "" && !a.json {
		a.note("Copy the file 'key' to the data folder of each other server of this database before it starts.")
	}
	return err
}
