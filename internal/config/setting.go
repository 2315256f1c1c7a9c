package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint"
)

// Setting describes one thing that can be set.
type Setting struct {
	Name    string // of the flag and of the key in the file
	Value   string // what kind of value, such as DIR
	Default string // for people
	Text    string // what it does, a sentence without its capital and full stop
}

// Env is the environment variable of the setting.
func (s Setting) Env() string {
	return "STINT_" + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// Settings lists every setting, in the order in which they are explained.
func Settings() []Setting {
	out := []Setting{{
		Name: "config", Value: "FILE", Default: "none",
		Text: "YAML file with these settings as keys (not itself a key of the file)",
	}}
	for _, o := range settings {
		out = append(out, o.describe())
	}
	return out
}

// setting is a row of the table: how a value is set, and its default shown.
type setting struct {
	name, value, dflt, text string
	set                     func(*Config, string) error
}

func (o setting) describe() Setting { return Setting{o.name, o.value, o.dflt, o.text} }

// Env is the environment variable of the setting.
func (o setting) Env() string { return o.describe().Env() }

var settings = []setting{
	{"data", "DIR", "$XDG_DATA_HOME/stint or ~/.local/share/stint", "folder of the installation: database, files, keys and the login socket", func(c *Config, v string) error {
		c.Data = v
		return required(v)
	}},
	{"listen", "HOST:PORT", "127.0.0.1:8700", "address to serve on; port 0 takes a free one", func(c *Config, v string) error {
		c.Listen = v
		return checkListen(v)
	}},
	{"public-url", "URL", "http://HOST:PORT of listen", "address of the server for clients, used in links", func(c *Config, v string) error {
		c.PublicURL = strings.TrimRight(v, "/")
		return checkURL(v, "http", "https")
	}},
	{"isolation", "NAME", "namespace", "isolation of runs from this machine: " + strings.Join(Isolations, ", "), func(c *Config, v string) error {
		c.Isolation = v
		if v == dockerIsolation {
			return errDockerRemoved
		}
		return oneOf(v, Isolations)
	}},
	{"parked", "N", "4", "sandboxes of that isolation that are prepared in advance, 0 to 1000", func(c *Config, v string) error {
		return whole(v, 0, 1000, &c.Parked)
	}},
	{"runsc", "FILE", "the one in this binary", "runsc program for the gvisor isolation", func(c *Config, v string) error {
		c.Runsc = v
		return required(v)
	}},
	{"egress-deny", "LIST", "none", "addresses that no run may reach, even if its definition allows them, separated by commas: CIDR, private (all addresses outside the public internet), host (host.stint.internal)", func(c *Config, v string) error {
		return c.deny(v)
	}},
	{"egress-ca", "FILE", "none", "PEM file of additional CA certificates for servers whose TLS connections the proxy terminates", func(c *Config, v string) error {
		c.EgressCA = v
		return required(v)
	}},
	{"egress-connections", "N", "256", "limit of simultaneous connections of a run, 1 to 65536", func(c *Config, v string) error {
		return whole(v, 1, 65536, &c.EgressConns)
	}},
	{"egress-log", "N", "100000", "limit of entries in a run's network log, 1000 to 10000000; a quarter is reserved for refusals, and further entries are only counted", func(c *Config, v string) error {
		return whole(v, 1000, 10_000_000, &c.EgressLog)
	}},
	{"egress-rate", "SIZE", "0 (unlimited)", "bytes per second that a run may send, and receive; 64KiB or more", func(c *Config, v string) error {
		if v == "0" {
			c.EgressRate = 0
			return nil
		}
		return size(v, 64*stint.KiB, &c.EgressRate)
	}},
	{"image-registries", "LIST", "all", "allowed registries of images, separated by commas, such as docker.io,registry.example.com:5000", func(c *Config, v string) error {
		c.Registries = nil
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.TrimSpace(name); name == "" || strings.Contains(name, "/") {
				return fmt.Errorf("'%s' is no registry such as registry.example.com:5000", name)
			}
			c.Registries = append(c.Registries, name)
		}
		return nil
	}},
	{"image-cache", "SIZE", "20GiB", "size of the cache of unpacked images that no run uses", func(c *Config, v string) error {
		return size(v, 0, &c.ImageCache)
	}},
	{"database", "URL", "SQLite in the data folder", "postgreSQL database, as postgres://USER@HOST/NAME; pass a password in the environment, not as a flag", func(c *Config, v string) error {
		c.Database = v
		return checkURL(v, "postgres", "postgresql")
	}},
	{"storage", "DIR|URL", "a folder in the data folder", "storage of files: a folder, or a bucket as s3://BUCKET[/PREFIX][?endpoint=URL&region=R&path_style=BOOL] with credentials from the environment, the credentials file, or the machine's role", func(c *Config, v string) error {
		c.Storage = v
		return checkStorage(v)
	}},
	{"encrypt-storage", "MODE", "off", "encrypt new files at rest (home folders always are): off, on, strict (unencrypted files are also not read)", func(c *Config, v string) error {
		c.EncryptStorage = v
		return oneOf(v, []string{EncryptOff, EncryptOn, EncryptStrict})
	}},
	{"capacity", "N", "64", "limit of simultaneous runs on this machine, 1 to 100000; further runs wait", func(c *Config, v string) error {
		return whole(v, 1, 100_000, &c.Capacity)
	}},
	{"per-org", "N", "0 (unlimited)", "limit of simultaneous runs of an organisation", func(c *Config, v string) error {
		return whole(v, 0, 100_000, &c.PerOrg)
	}},
	{"per-agent", "N", "0 (unlimited)", "limit of simultaneous runs of an agent", func(c *Config, v string) error {
		return whole(v, 0, 100_000, &c.PerAgent)
	}},
	{"max-depth", "N", "3", "how many levels of runs agents may start below a user's run if they have access to the API, 0 to 100; 0 means none", func(c *Config, v string) error {
		return whole(v, 0, 100, &c.MaxDepth)
	}},
	{"cpu", "CORES", "2", "default number of cores of a run", func(c *Config, v string) error {
		cores, err := strconv.ParseFloat(v, 64)
		if err != nil || !(cores >= 0.01 && cores <= 1024) {
			return fmt.Errorf("'%s' is no number of cores between 0.01 and 1024", v)
		}
		c.Resources.CPU = cores
		return nil
	}},
	{"memory", "SIZE", "2GiB", "default memory of a run, 16MiB or more", func(c *Config, v string) error {
		return size(v, 16*stint.MiB, &c.Resources.Memory)
	}},
	{"disk", "SIZE", "10GiB", "default disk space of a run, 1MiB or more", func(c *Config, v string) error {
		return size(v, stint.MiB, &c.Resources.Disk)
	}},
	{"pids", "N", "512", "default limit of processes and threads of a run, 8 to 1048576", func(c *Config, v string) error {
		var n int
		err := whole(v, 8, 1<<20, &n)
		c.Resources.Pids = int64(n)
		return err
	}},
	{"queue-expiry", "DURATION", "24h", "how long a run may wait for its start before it fails; 0 is unlimited", func(c *Config, v string) error {
		return duration(v, time.Second, true, &c.QueueExpiry)
	}},
	{"storage-quota", "SIZE", "0", "limit of stored bytes of an organisation, compressed and deduplicated; 0 is unlimited", func(c *Config, v string) error {
		return size(v, 0, &c.StorageQuota)
	}},
	{"keep-versions", "N", "0", "number of newest versions of an artifact or volume that are always kept; 0 together with --keep-for 0 keeps all", func(c *Config, v string) error {
		return whole(v, 0, 1_000_000_000, &c.KeepVersions)
	}},
	{"keep-for", "DURATION", "0", "age up to which versions are always kept, such as 90d", func(c *Config, v string) error {
		return duration(v, time.Second, true, &c.KeepFor)
	}},
	{"gc-every", "DURATION", "6h", "interval of garbage collection; 0 disables it, except for 'stint gc'", func(c *Config, v string) error {
		return duration(v, time.Second, true, &c.GCEvery)
	}},
	{"gc-grace", "DURATION", "24h", "how long unreferenced files are kept before garbage collection deletes them", func(c *Config, v string) error {
		return duration(v, 0, true, &c.GCGrace)
	}},
	{"drain", "DURATION", "30s", "how long runs may continue during shutdown; 0 ends them immediately", func(c *Config, v string) error {
		return duration(v, time.Millisecond, true, &c.Drain)
	}},
	{"lease-ttl", "DURATION", "15s", "how long a worker may be silent before its runs are lost, 1s to 10m", func(c *Config, v string) error {
		if err := duration(v, time.Second, false, &c.LeaseTTL); err != nil {
			return err
		}
		if c.LeaseTTL > 10*time.Minute {
			return fmt.Errorf("'%s' is more than 10m", v)
		}
		return nil
	}},
	{"log-level", "LEVEL", "info", "minimum level of log entries: debug, info, warn, error", func(c *Config, v string) error {
		c.LogLevel = v
		return oneOf(v, []string{"debug", "info", "warn", "error"})
	}},
	{"log-format", "FORMAT", "text", "format of the log: text, json", func(c *Config, v string) error {
		c.LogFormat = v
		return oneOf(v, []string{"text", "json"})
	}},
}

// notInternet contains the addresses outside of the public internet.
var notInternet = []string{"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7", "fe80::/10"}

// deny parses a list of addresses.
func (c *Config) deny(list string) error {
	c.EgressDeny, c.EgressNoHost = nil, false
	for word := range strings.SplitSeq(list, ",") {
		switch word = strings.TrimSpace(word); word {
		case "host":
			c.EgressNoHost = true
		case "private":
			for _, p := range notInternet {
				c.EgressDeny = append(c.EgressDeny, netip.MustParsePrefix(p))
			}
		default:
			p, err := netip.ParsePrefix(word)
			if err != nil {
				return fmt.Errorf("'%s' is no CIDR such as 10.0.0.0/8, and not private or host", word)
			}
			c.EgressDeny = append(c.EgressDeny, p.Masked())
		}
	}
	return nil
}

func required(v string) error {
	if v == "" {
		return errors.New("the value is empty")
	}
	return nil
}

func oneOf(v string, allowed []string) error {
	if slices.Contains(allowed, v) {
		return nil
	}
	return fmt.Errorf("'%s' is not one of %s", v, strings.Join(allowed, ", "))
}

func checkListen(v string) error {
	_, port, err := net.SplitHostPort(v)
	if err != nil {
		return fmt.Errorf("'%s' is no address such as 127.0.0.1:8700", v)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n > 65535 {
		return fmt.Errorf("'%s' is no port between 0 and 65535", port)
	}
	return nil
}

// checkURL returns errors without the value, which may contain a password.
func checkURL(v string, schemes ...string) error {
	u, err := url.Parse(v)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Host == "" && u.RawQuery == "" {
		return fmt.Errorf("the value is no URL that begins with %s://", strings.Join(schemes, ":// or "))
	}
	return nil
}

// bucketScheme is the scheme of storage in a bucket.
const bucketScheme = "s3://"

// checkStorage returns errors without the URL, which may contain credentials.
func checkStorage(v string) error {
	if !strings.Contains(v, "://") {
		return required(v)
	}
	u, err := url.Parse(v)
	switch {
	case err != nil || !strings.HasPrefix(v, bucketScheme) || u.Host == "":
		return errors.New("the value is no folder and no URL such as s3://BUCKET/PREFIX")
	case u.User != nil:
		return errors.New("the URL contains credentials; pass them in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, in the credentials file, or by a role")
	}
	return nil
}

func whole(v string, least, most int, into *int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return fmt.Errorf("'%s' is no whole number between %d and %d", v, least, most)
	}
	*into = n
	return nil
}

func size(v string, least stint.Size, into *stint.Size) error {
	s, err := stint.ParseSize(v)
	if err != nil {
		return err
	}
	if s < least {
		return fmt.Errorf("'%s' is less than %s", v, least)
	}
	*into = s
	return nil
}

func duration(v string, least time.Duration, zero bool, into *time.Duration) error {
	d, err := ParseDuration(v)
	if err != nil {
		return err
	}
	if d < least && (!zero || d != 0) {
		return fmt.Errorf("'%s' is less than %s", v, least)
	}
	*into = d
	return nil
}

// ParseDuration parses a duration, which may also be a whole number of days
// ("90d"). Negative durations and those above 100 years are errors.
func ParseDuration(v string) (time.Duration, error) {
	const most = 36525 * 24 * time.Hour
	d, err := time.ParseDuration(v)
	if days, ok := strings.CutSuffix(v, "d"); ok {
		n, parseErr := strconv.ParseUint(days, 10, 16)
		if d, err = time.Duration(n)*24*time.Hour, parseErr; d > most {
			d = -1
		}
	}
	if err != nil || d < 0 || d > most {
		return 0, fmt.Errorf("'%s' is no duration such as 30s, 2h or 90d", v)
	}
	return d, nil
}
