package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/maintenance"
	"github.com/stint-dev/stint/internal/store"
)

func (s *server) maintenance() *maintenance.Service {
	return maintenance.New(maintenance.Config{Store: s.db, Library: s.library, IDs: s.ids, Now: time.Now})
}

// Maintenance maintains the storage of an installation while its server does not run.
// While Maintenance is open, the server cannot start.
type Maintenance struct {
	*maintenance.Service
	s *server
}

// OpenMaintenance opens the installation in the data folder c.Data.
func OpenMaintenance(ctx context.Context, c config.Config) (*Maintenance, error) {
	if err := checkInstalled(c); err != nil {
		return nil, err
	}
	s := newServer(c, nil)
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return &Maintenance{Service: s.maintenance(), s: s}, nil
}

// Close closes the installation.
func (m *Maintenance) Close() error { return m.s.close() }

// checkInstalled returns an error if the data folder has no key file.
func checkInstalled(c config.Config) error {
	if _, err := os.Stat(filepath.Join(c.Data, keyFile)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no installation in %s yet; choose its folder with --data", c.Data)
	}
	return nil
}

// gcAdapter passes the state of garbage collections from the database to the
// library.
type gcAdapter struct{ store.Collections }

// Marked returns the current epoch of the collections of an organisation, and the keys
// of the objects that are marked for deletion.
func (g gcAdapter) Marked(ctx context.Context, org string) (int64, []string, error) {
	epoch, list, err := g.MarkedObjects(ctx, org)
	if err != nil {
		return 0, nil, err
	}
	keys := make([]string, len(list))
	for i, c := range list {
		keys[i] = c.Key
	}
	return epoch, keys, nil
}
