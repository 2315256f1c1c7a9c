package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint"
)

// Config is everything that an operator can set.
type Config struct {
	Data      string // absolute folder of the installation
	Listen    string // host:port
	PublicURL string // as clients reach the server; empty: derived from Listen
	Isolation string // one of Isolations
	Database  string // postgres:// URL; empty: SQLite in Data
	Storage   string // absolute folder, or s3:// URL; empty: a folder in Data
	// EncryptStorage tells which files rest encrypted: EncryptOff, EncryptOn or
	// EncryptStrict.
	EncryptStorage string

	ConfigFile string // the file that was read; empty for none
	LogLevel   string // debug, info, warn, error
	LogFormat  string // text, json

	Capacity int // runs that this worker works at once
	PerOrg   int // running runs of one organisation at once; 0 is unlimited
	PerAgent int // running runs of one agent at once; 0 is unlimited

	MaxDepth int // runs that agents may start below one of a user, one below the other; 0: none

	// Resources are what a run gets whose definition does not say.
	Resources stint.Resources

	QueueExpiry  time.Duration  // how long a run may wait for its start; 0 is for ever
	Parked       int            // sandboxes of the default isolation that are prepared ahead
	Runsc        string         // absolute path of a runsc to use instead of the one in this binary
	EgressDeny   []netip.Prefix // addresses that no run reaches, whatever its definition allows
	EgressNoHost bool           // host.stint.internal is refused too
	EgressCA     string         // file of further certificates by which servers are believed
	EgressConns  int            // connections of a run at once
	EgressLog    int            // entries of the log of a run's network
	EgressRate   stint.Size     // bytes a second of a run, each way; 0 is unlimited
	Registries   []string       // from which images may come; empty: all
	ImageCache   stint.Size     // of unpacked images that no run uses

	StorageQuota stint.Size    // bytes that an organisation may keep in the storage; 0 is unlimited
	KeepVersions int           // how many versions of a tree stay whatever their age; 0 with KeepFor 0 keeps all
	KeepFor      time.Duration // how long versions stay whatever their number
	GCEvery      time.Duration // how often the storage is cleared of what nothing names; 0 never
	GCGrace      time.Duration // how long such objects stay before they are deleted

	Drain    time.Duration // how long running runs may go on at a shutdown
	LeaseTTL time.Duration // how long a silent worker keeps its runs
}

// SocketName is the name of the socket in the data folder through which the
// folder's owner logs in.
const SocketName = "stint.sock"

// Socket is the path of the login socket.
func (c *Config) Socket() string { return filepath.Join(c.Data, SocketName) }

// Values of EncryptStorage.
const (
	EncryptOff    = "off"    // what is new rests as it is
	EncryptOn     = "on"     // what is new is encrypted
	EncryptStrict = "strict" // and what is not encrypted is not there
)

// Isolations are the isolators that this binary carries.
var Isolations = []string{"namespace", "gvisor"}

// Default is the configuration without any source; Data is not set.
func Default() Config {
	return Config{
		Listen:         "127.0.0.1:8700",
		Isolation:      "namespace",
		LogLevel:       "info",
		EncryptStorage: EncryptOff,
		LogFormat:      "text",
		Capacity:       64,
		MaxDepth:       3,
		Resources:      stint.Resources{CPU: 2, Memory: 2 * stint.GiB, Disk: 10 * stint.GiB, Pids: 512},
		Parked:         4,
		EgressConns:    256,
		EgressLog:      100_000,
		ImageCache:     20 * stint.GiB,
		QueueExpiry:    24 * time.Hour,
		GCEvery:        6 * time.Hour,
		GCGrace:        24 * time.Hour,
		Drain:          30 * time.Second,
		LeaseTTL:       15 * time.Second,
	}
}

// Sources is where settings come from.
type Sources struct {
	// Flags are the flags that were given, by the setting's name.
	Flags map[string]string
	// Environ looks an environment variable up.
	Environ func(string) (string, bool)
	// ReadFile reads the configuration file.
	ReadFile func(path string) ([]byte, error)
	// Dir is the working directory, to which relative paths refer.
	Dir string
}

// Load merges the sources into a valid configuration. Its errors are sentences
// that name the setting and where its value came from.
func Load(s Sources) (Config, error) {
	c := Default()
	c.ConfigFile, _ = s.Environ("STINT_CONFIG")
	if file, ok := s.Flags["config"]; ok {
		c.ConfigFile = file
	}
	c.ConfigFile = s.absolute(c.ConfigFile)
	file, err := s.readFile(c.ConfigFile)
	if err != nil {
		return Config{}, err
	}
	for _, o := range slices.Concat(settings, removed) {
		if err := s.apply(&c, o, file); err != nil {
			return Config{}, err
		}
	}
	if c.Data == "" {
		if c.Data, err = DefaultData(s.Environ); err != nil {
			return Config{}, err
		}
	}
	c.Data, c.EgressCA, c.Runsc = s.absolute(c.Data), s.absolute(c.EgressCA), s.absolute(c.Runsc)
	if !strings.HasPrefix(c.Storage, bucketScheme) {
		c.Storage = s.absolute(c.Storage)
	}
	return c, c.check()
}

// apply takes the value of one setting from the source that rules.
func (s Sources) apply(c *Config, o setting, file map[string]string) error {
	value, from, ok := "", "", false
	if value, ok = s.Flags[o.name]; ok {
		from = "--" + o.name
	} else if value, ok = s.Environ(o.Env()); ok && value != "" {
		from = o.Env()
	} else if value, ok = file[o.name]; ok {
		from = fmt.Sprintf("'%s' in %s", o.name, c.ConfigFile)
	}
	if from == "" {
		return nil
	}
	if err := o.set(c, value); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return nil
}

func (s Sources) absolute(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(s.Dir, path)
}

// maxSocketPath is the longest socket path that every system takes.
const maxSocketPath = 103

func (c *Config) check() error {
	if len(c.Socket()) > maxSocketPath {
		return fmt.Errorf("the data folder's path is too long: %s has %d bytes, but a socket's path may have %d; choose a shorter one with --data", c.Socket(), len(c.Socket()), maxSocketPath)
	}
	return nil
}

// DefaultData is the data folder where none was named: below $XDG_DATA_HOME,
// else below the home folder.
func DefaultData(environ func(string) (string, bool)) (string, error) {
	if base, _ := environ("XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "stint"), nil
	}
	home, _ := environ("HOME")
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("there is no home folder to keep data in (HOME is '%s'): name a data folder with --data DIR or STINT_DATA", home)
	}
	return filepath.Join(home, ".local", "share", "stint"), nil
}
