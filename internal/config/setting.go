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

// Setting describes a setting of the server.
type Setting struct {
	Name    string // name of the flag and of the key in the file
	Value   string // kind of value in the documentation, such as DIR
	Default string // default value in the documentation
	Text    string // description, in lower case and without a full stop

	set func(value string) error // parses and checks a value, and sets the field of a Config
}

// Env returns the name of the setting's environment variable.
func (s Setting) Env() string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// Settings returns all settings in the order of the documentation.
func Settings() []Setting {
	file := Setting{Name: "config", Value: "FILE", Default: "none", Text: "YAML file with these settings as keys (not itself a key of the file)"}
	return append([]Setting{file}, new(Config).settings()...)
}

// settings returns all settings except "config". Their set functions set fields of c.
func (c *Config) settings() []Setting {
	return []Setting{
		{"data", "DIR", "$XDG_DATA_HOME/stint or ~/.local/share/stint", "folder of the installation: database, files, keys and the login socket", checked(&c.Data, required)},
		{"listen", "HOST:PORT", "127.0.0.1:8700", "address to serve on; port 0 takes a free one", checked(&c.Listen, checkListen)},
		{"public-url", "URL", "http://HOST:PORT of listen", "address of the server for clients, used in links", checked(&c.PublicURL, checkURL("http", "https"))},
		{"isolation", "NAME", "namespace", "isolation of runs from this machine: " + strings.Join(Isolations, ", "), checked(&c.Isolation, checkIsolation)},
		{"parked", "N", "4", "sandboxes of the default isolation that are prepared in advance, 0 to 1000", whole(&c.Parked, 0, 1000)},
		{"runsc", "FILE", "the one in this binary", "runsc program for the gvisor isolation", checked(&c.Runsc, required)},
		{"egress-deny", "LIST", "none", "addresses that no run may reach, even if its definition allows them, separated by commas: CIDR, private (all addresses outside the public internet), host (host.stint.internal)", c.setEgressDeny},
		{"egress-ca", "FILE", "none", "PEM file of additional CA certificates for servers whose TLS connections the proxy terminates", checked(&c.EgressCA, required)},
		{"egress-connections", "N", "256", "limit of simultaneous connections of a run, 1 to 65536", whole(&c.EgressConns, 1, 65536)},
		{"egress-log", "N", "100000", "limit of entries in a run's network log, 1000 to 10000000; a quarter is reserved for refusals, and further entries are only counted", whole(&c.EgressLog, 1000, 10_000_000)},
		{"egress-rate", "SIZE", "0 (unlimited)", "bytes per second that a run may send, and also that it may receive; 64KiB or more", sizeOrZero(&c.EgressRate, 64*stint.KiB)},
		{"image-registries", "LIST", "all", "allowed registries of images, separated by commas, such as docker.io,registry.example.com:5000", c.setRegistries},
		{"image-cache", "SIZE", "20GiB", "size of the cache of unpacked images that no run uses", size(&c.ImageCache, 0)},
		{"database", "URL", "SQLite in the data folder", "PostgreSQL database, as postgres://USER@HOST/NAME; pass a password in the environment, not as a flag", checked(&c.Database, checkURL("postgres", "postgresql"))},
		{"storage", "DIR|URL", "a folder in the data folder", "storage of files: a folder, or a bucket as s3://BUCKET[/PREFIX][?endpoint=URL&region=R&path_style=BOOL] with credentials from the environment, the credentials file, or the machine's role", checked(&c.Storage, checkStorage)},
		{"encrypt-storage", "MODE", "off", "encrypt new files at rest (home folders always are): off, on, strict (like on, and unencrypted files are not read)", checked(&c.EncryptStorage, oneOf(EncryptOff, EncryptOn, EncryptStrict))},
		{"capacity", "N", "64", "limit of simultaneous runs on this machine, 1 to 100000; further runs wait", whole(&c.Capacity, 1, 100_000)},
		{"per-org", "N", "0 (unlimited)", "limit of simultaneous runs of an organisation", whole(&c.PerOrg, 0, 100_000)},
		{"per-agent", "N", "0 (unlimited)", "limit of simultaneous runs of an agent", whole(&c.PerAgent, 0, 100_000)},
		{"labels", "LIST", "none", "labels of this machine for the key 'placement' of definitions, such as zone=eu,gpu=yes", c.setLabels},
		{"max-depth", "N", "3", "how many levels of runs agents may start below a user's run if they have access to the API, 0 to 100; 0 means none", whole(&c.MaxDepth, 0, 100)},
		{"cpu", "CORES", "2", "default number of cores of a run", c.setCPU},
		{"memory", "SIZE", "2GiB", "default memory of a run, 16MiB or more", size(&c.Resources.Memory, 16*stint.MiB)},
		{"disk", "SIZE", "10GiB", "default disk space of a run, 1MiB or more", size(&c.Resources.Disk, stint.MiB)},
		{"pids", "N", "512", "default limit of processes and threads of a run, 8 to 1048576", whole(&c.Resources.Pids, 8, 1<<20)},
		{"queue-expiry", "DURATION", "24h", "how long a run may wait for its start before it fails; 0 is unlimited", duration(&c.QueueExpiry, time.Second)},
		{"storage-quota", "SIZE", "0", "limit of stored bytes of an organisation, compressed and deduplicated; 0 is unlimited", size(&c.StorageQuota, 0)},
		{"keep-versions", "N", "0", "number of newest versions of an artifact or volume that are always kept; 0 together with --keep-for 0 keeps all", whole(&c.KeepVersions, 0, 1_000_000_000)},
		{"keep-for", "DURATION", "0", "age up to which versions are always kept, such as 90d", duration(&c.KeepFor, time.Second)},
		{"gc-every", "DURATION", "6h", "interval of garbage collection; 0 disables it, except for 'stint gc'", duration(&c.GCEvery, time.Second)},
		{"gc-grace", "DURATION", "24h", "minimum age of unreferenced files that garbage collection deletes", duration(&c.GCGrace, 0)},
		{"drain", "DURATION", "30s", "how long runs may continue during shutdown; 0 ends them immediately", duration(&c.Drain, time.Millisecond)},
		{"lease-ttl", "DURATION", "15s", "how long a worker may be silent before its runs are lost, 1s to 10m", c.setLeaseTTL},
		{"log-level", "LEVEL", "info", "minimum level of log entries: debug, info, warn, error", checked(&c.LogLevel, oneOf("debug", "info", "warn", "error"))},
		{"log-format", "FORMAT", "text", "format of the log: text, json", checked(&c.LogFormat, oneOf("text", "json"))},
	}
}

// notInternet contains the private, shared, loopback, and link-local addresses, which
// the word "private" stands for in the setting egress-deny.
var notInternet = []string{"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7", "fe80::/10"}

func (c *Config) setEgressDeny(list string) error {
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
				return fmt.Errorf("'%s' is not a CIDR such as 10.0.0.0/8, and not private or host", word)
			}
			c.EgressDeny = append(c.EgressDeny, p.Masked())
		}
	}
	return nil
}

func (c *Config) setRegistries(list string) error {
	c.Registries = nil
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("'%s' is not a registry such as registry.example.com:5000", name)
		}
		c.Registries = append(c.Registries, name)
	}
	return nil
}

func (c *Config) setLabels(list string) error {
	c.Labels = map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if _, twice := c.Labels[key]; !ok || key == "" || twice {
			return fmt.Errorf("'%s' is not a label such as zone=eu, or its name occurs twice", pair)
		}
		c.Labels[key] = value
	}
	return nil
}

func (c *Config) setCPU(v string) error {
	cores, err := strconv.ParseFloat(v, 64)
	if err != nil || !(cores >= 0.01 && cores <= 1024) {
		return fmt.Errorf("'%s' is not a number of cores between 0.01 and 1024", v)
	}
	c.Resources.CPU = cores
	return nil
}

func (c *Config) setLeaseTTL(v string) error {
	d, err := ParseDuration(v)
	if err != nil {
		return err
	}
	if d < time.Second || d > 10*time.Minute {
		return fmt.Errorf("'%s' is less than 1s or more than 10m", v)
	}
	c.LeaseTTL = d
	return nil
}

// checked returns a function that sets *to to a value and returns the error of check.
func checked(to *string, check func(string) error) func(string) error {
	return func(v string) error {
		*to = v
		return check(v)
	}
}

func required(v string) error {
	if v == "" {
		return errors.New("the value is empty")
	}
	return nil
}

func oneOf(allowed ...string) func(string) error {
	return func(v string) error {
		if slices.Contains(allowed, v) {
			return nil
		}
		return fmt.Errorf("'%s' is not one of %s", v, strings.Join(allowed, ", "))
	}
}

func checkIsolation(v string) error {
	if v == dockerIsolation {
		return errDockerRemoved
	}
	return oneOf(Isolations...)(v)
}

func checkListen(v string) error {
	_, port, err := net.SplitHostPort(v)
	if err != nil {
		return fmt.Errorf("'%s' is not an address such as 127.0.0.1:8700", v)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("'%s' is not a port between 0 and 65535", port)
	}
	return nil
}

// checkURL returns a check for URLs with one of the schemes. Its errors do not contain
// the value, which may contain a password.
func checkURL(schemes ...string) func(string) error {
	return func(v string) error {
		u, err := url.Parse(v)
		if err != nil || !slices.Contains(schemes, u.Scheme) || u.Host == "" && u.RawQuery == "" {
			return fmt.Errorf("the value is not a URL that begins with %s://", strings.Join(schemes, ":// or "))
		}
		return nil
	}
}

// bucketScheme is the scheme of storage in a bucket.
const bucketScheme = "s3://"

// checkStorage checks a folder or the URL of a bucket. Its errors do not contain the
// URL, which may contain credentials.
func checkStorage(v string) error {
	if !strings.Contains(v, "://") {
		return required(v)
	}
	u, err := url.Parse(v)
	switch {
	case err != nil || !strings.HasPrefix(v, bucketScheme) || u.Host == "":
		return errors.New("the value is not a folder or a URL such as s3://BUCKET/PREFIX")
	case u.User != nil:
		return errors.New("the URL contains credentials; pass them in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, in the credentials file, or by a role")
	}
	return nil
}

// whole returns a function that parses a whole number from least to most into *to.
func whole[T int | int64](to *T, least, most T) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < int64(least) || n > int64(most) {
			return fmt.Errorf("'%s' is not a whole number between %d and %d", v, least, most)
		}
		*to = T(n)
		return nil
	}
}

// size returns a function that parses a size into *to. The minimum is least bytes.
func size(to *stint.Size, least stint.Size) func(string) error {
	return func(v string) error {
		s, err := stint.ParseSize(v)
		if err != nil {
			return err
		}
		if s < least {
			return fmt.Errorf("'%s' is less than %s", v, least)
		}
		*to = s
		return nil
	}
}

// sizeOrZero is like size and also accepts "0".
func sizeOrZero(to *stint.Size, least stint.Size) func(string) error {
	return func(v string) error {
		if v == "0" {
			*to = 0
			return nil
		}
		return size(to, least)(v)
	}
}

// duration returns a function that parses a duration into *to. The duration must be 0,
// or least or longer.
func duration(to *time.Duration, least time.Duration) func(string) error {
	return func(v string) error {
		d, err := ParseDuration(v)
		if err != nil {
			return err
		}
		if d != 0 && d < least {
			return fmt.Errorf("'%s' is less than %s", v, least)
		}
		*to = d
		return nil
	}
}

// ParseDuration parses a duration in the syntax of time.ParseDuration, or a whole
// number of days such as "90d". It returns an error if the duration is negative or
// longer than 100 years.
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
		return 0, fmt.Errorf("'%s' is not a duration such as 30s, 2h or 90d", v)
	}
	return d, nil
}
