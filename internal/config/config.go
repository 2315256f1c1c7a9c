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

// Config is the configuration of a server.
type Config struct {
	Data      string // absolute path of the installation's folder
	Listen    string // host:port
	PublicURL string // address for clients; empty: derived from Listen
	Isolation string // one of Isolations
	Database  string // postgres:// URL; empty: SQLite in Data
	Storage   string // absolute path of a folder, or s3:// URL; empty: a folder in Data

	EncryptStorage string // EncryptOff, EncryptOn, or EncryptStrict

	ConfigFile string // the file that was read; empty for none
	LogLevel   string // debug, info, warn, error
	LogFormat  string // text, json

	Capacity int // simultaneous runs on this worker
	PerOrg   int // simultaneous runs of an organisation; 0 is unlimited
	PerAgent int // simultaneous runs of an agent; 0 is unlimited
	MaxDepth int // levels of runs that agents may start below a user's run; 0: none

	Labels    map[string]string // of this worker, for placement
	Resources stint.Resources   // defaults of definitions

	QueueExpiry  time.Duration  // how long a run may wait for its start; 0 is unlimited
	Parked       int            // prepared sandboxes of the default isolation
	Runsc        string         // absolute path of a runsc; empty: the one in this binary
	EgressDeny   []netip.Prefix // addresses that no run may reach
	EgressNoHost bool           // no run may reach host.stint.internal
	EgressCA     string         // file of additional CA certificates for TLS interception
	EgressConns  int            // simultaneous connections of a run
	EgressLog    int            // entries in a run's network log
	EgressRate   stint.Size     // bytes per second of a run in each direction; 0 is unlimited
	Registries   []string       // allowed registries of images; empty: all
	ImageCache   stint.Size     // maximum bytes of unpacked images that no run uses

	StorageQuota stint.Size    // stored bytes of an organisation; 0 is unlimited
	KeepVersions int           // number of newest versions that are kept; 0 with KeepFor 0 keeps all
	KeepFor      time.Duration // age up to which versions are kept
	GCEvery      time.Duration // interval of garbage collection; 0: never
	GCGrace      time.Duration // grace period of garbage collection

	Drain    time.Duration // how long runs may continue during shutdown
	LeaseTTL time.Duration // duration of a worker's lease
}

// SocketName is the name of the socket in the data folder. Through it the folder's
// owner logs in and manages the server.
const SocketName = "stint.sock"

// Socket returns the path of the socket in the data folder.
func (c *Config) Socket() string { return filepath.Join(c.Data, SocketName) }

// Values of EncryptStorage.
const (
	EncryptOff    = "off"    // new files are not encrypted, except home folders
	EncryptOn     = "on"     // new files are encrypted
	EncryptStrict = "strict" // new files are encrypted, and unencrypted files are not read
)

// Isolations are the names of the isolators.
var Isolations = []string{"namespace", "gvisor"}

// Default returns the configuration with the default of each setting. Data is empty,
// because its default depends on the environment.
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

// Sources provides the values of settings.
type Sources struct {
	// Flags contains the values of the flags in the command line, by name.
	Flags map[string]string
	// Environ returns the value of an environment variable.
	Environ func(string) (string, bool)
	// ReadFile reads the configuration file.
	ReadFile func(path string) ([]byte, error)
	// Dir is the working directory. Relative paths are resolved against it.
	Dir string
}

// Load merges the sources into a valid configuration. If a value is invalid, the error
// names its setting and source.
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
	for _, o := range slices.Concat(c.settings(), removed) {
		if err := s.apply(o, file, c.ConfigFile); err != nil {
			return Config{}, err
		}
	}
	if c.Data == "" {
		if c.Data, err = DefaultData(s.Environ); err != nil {
			return Config{}, err
		}
	}
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	c.Data, c.EgressCA, c.Runsc = s.absolute(c.Data), s.absolute(c.EgressCA), s.absolute(c.Runsc)
	if !strings.HasPrefix(c.Storage, bucketScheme) {
		c.Storage = s.absolute(c.Storage)
	}
	return c, c.check()
}

// apply sets a setting to its value in the first source that has one: the flags, the
// environment, and then the file. An empty environment variable is ignored.
func (s Sources) apply(o Setting, file map[string]string, fileName string) error {
	value, from, ok := "", "", false
	if value, ok = s.Flags[o.Name]; ok {
		from = "--" + o.Name
	} else if value, ok = s.Environ(o.Env()); ok && value != "" {
		from = o.Env()
	} else if value, ok = file[o.Name]; ok {
		from = fmt.Sprintf("'%s' in %s", o.Name, fileName)
	}
	if from == "" {
		return nil
	}
	if err := o.set(value); err != nil {
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

// maxSocketPath is the maximum length in bytes that all systems allow for the path of
// a socket.
const maxSocketPath = 103

func (c *Config) check() error {
	if len(c.Socket()) > maxSocketPath {
		return fmt.Errorf("the path of the data folder is too long: %s has %d bytes, but the path of a socket may have %d; choose a shorter one with --data", c.Socket(), len(c.Socket()), maxSocketPath)
	}
	return nil
}

// DefaultData returns the path of the default data folder. The folder is in
// $XDG_DATA_HOME if that is an absolute path, and otherwise in the home folder. If
// there is no home folder, DefaultData returns an error.
func DefaultData(environ func(string) (string, bool)) (string, error) {
	if base, _ := environ("XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "stint"), nil
	}
	home, _ := environ("HOME")
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("there is no home folder for the data (HOME is '%s'): set a data folder with --data DIR or STINT_DATA", home)
	}
	return filepath.Join(home, ".local", "share", "stint"), nil
}
