package config_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/config"
)

var update = flag.Bool("update", false, "rewrite the generated documentation")

// sources returns sources with the given flags, environment variables, and files (content
// by path). The working directory is /here.
func sources(flags, environ, files map[string]string) config.Sources {
	return config.Sources{
		Flags:   flags,
		Environ: func(name string) (string, bool) { v, ok := environ[name]; return v, ok },
		ReadFile: func(path string) ([]byte, error) {
			content, ok := files[path]
			if !ok {
				return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
			}
			return []byte(content), nil
		},
		Dir: "/here",
	}
}

type values = map[string]string

func TestDefaults(t *testing.T) {
	t.Parallel()
	got, err := config.Load(sources(nil, values{"HOME": "/home/u"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Data = "/home/u/.local/share/stint"
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEveryDefaultIsAccepted passes the documented default of each setting as a flag. The
// loaded configuration must equal Default.
func TestEveryDefaultIsAccepted(t *testing.T) {
	t.Parallel()
	flags := values{"data": "/d"}
	for _, s := range config.Settings() {
		value, note, _ := strings.Cut(s.Default, " ")
		if plain := note == "" || strings.HasPrefix(note, "("); plain && value != "none" && value != "all" {
			flags[s.Name] = value
		}
	}
	got, err := config.Load(sources(flags, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Data = "/d"
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" || len(flags) < 12 {
		t.Errorf("%d defaults shown (-want +got):\n%s", len(flags), diff)
	}
}

func TestOrderOfSources(t *testing.T) {
	t.Parallel()
	files := values{"/here/s.yaml": "capacity: 1\nper-org: 1\nper-agent: 1\nmemory: 64MiB\ncpu: 0.5\nlisten: 127.0.0.1:1\n"}
	environ := values{"HOME": "/h", "STINT_CAPACITY": "2", "STINT_PER_ORG": "2", "STINT_CONFIG": "/elsewhere.yaml", "STINT_LOG_LEVEL": ""}
	got, err := config.Load(sources(values{"capacity": "3", "config": "s.yaml"}, environ, files))
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Data, want.ConfigFile, want.Listen = "/h/.local/share/stint", "/here/s.yaml", "127.0.0.1:1"
	want.Capacity, want.PerOrg, want.PerAgent = 3, 2, 1
	want.Resources.Memory, want.Resources.CPU = 64*stint.MiB, 0.5
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEverySettingIsApplied(t *testing.T) {
	t.Parallel()
	all := values{
		"data": "d", "listen": ":0", "public-url": "https://stint.example/", "isolation": "gvisor",
		"parked": "9", "runsc": "bin/runsc",
		"egress-deny": "10.1.2.3/8, host", "egress-ca": "ca.pem", "egress-connections": "8", "egress-log": "2000", "egress-rate": "1MiB", "image-cache": "3GiB", "image-registries": "docker.io, r.example:5000",
		"database": "postgres://u@h/d", "storage": "blobs", "encrypt-storage": "strict", "capacity": "5", "per-org": "6", "per-agent": "7", "max-depth": "8",
		"cpu": "1.5", "memory": "1GiB", "disk": "2GiB", "pids": "99", "queue-expiry": "1h", "labels": "zone=eu, gpu=",
		"storage-quota": "5GiB", "keep-versions": "12", "keep-for": "90d", "gc-every": "0", "gc-grace": "2h",
		"drain": "0", "lease-ttl": "1m", "log-level": "debug", "log-format": "json", "config": "c.yaml",
	}
	want := config.Config{
		Data: "/here/d", Listen: ":0", PublicURL: "https://stint.example", Isolation: "gvisor",
		Parked: 9, Runsc: "/here/bin/runsc",
		EgressDeny: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, EgressNoHost: true, EgressCA: "/here/ca.pem", EgressConns: 8, EgressLog: 2000, EgressRate: stint.MiB, ImageCache: 3 * stint.GiB, Registries: []string{"docker.io", "r.example:5000"},
		Database: "postgres://u@h/d", Storage: "/here/blobs", EncryptStorage: config.EncryptStrict, ConfigFile: "/here/c.yaml", LogLevel: "debug", LogFormat: "json",
		Capacity: 5, PerOrg: 6, PerAgent: 7, MaxDepth: 8, Resources: stint.Resources{CPU: 1.5, Memory: stint.GiB, Disk: 2 * stint.GiB, Pids: 99},
		Labels:      map[string]string{"zone": "eu", "gpu": ""},
		QueueExpiry: time.Hour, LeaseTTL: time.Minute,
		StorageQuota: 5 * stint.GiB, KeepVersions: 12, KeepFor: 90 * 24 * time.Hour, GCGrace: 2 * time.Hour,
	}
	environ := values{}
	for _, s := range config.Settings() {
		if _, ok := all[s.Name]; !ok {
			t.Errorf("the setting %s is not tested", s.Name)
		}
		environ[s.Env()] = all[s.Name]
	}
	files := values{"/here/c.yaml": ""}
	for name, s := range map[string]config.Sources{"flags": sources(all, nil, files), "environment": sources(nil, environ, files)} {
		got, err := config.Load(s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestInvalidValues(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		flags, environ values
		file           string
		want           string
	}{
		"flag":            {flags: values{"capacity": "many"}, want: "--capacity: 'many' is not a whole number between 1 and 100000"},
		"environment":     {environ: values{"STINT_LEASE_TTL": "5"}, want: "STINT_LEASE_TTL: '5' is not a duration"},
		"file":            {file: "log-format: xml", want: "'log-format' in /here/c.yaml: 'xml' is not one of text, json"},
		"unknown key":     {file: "leaseTTL: 5s", want: "unknown key 'leaseTTL'; did you mean 'lease-ttl'?"},
		"unknown key too": {file: "colour: red", want: "unknown key 'colour'"},
		"nested":          {file: "data: {dir: x}", want: "a single text"},
		"list":            {file: "- data", want: "not a YAML map"},
		"duplicate key":   {file: "data: a\ndata: b", want: "already defined"},
		"no secrets":      {file: "database: postgres://u:hunter2@h/d\ndatabase: b", want: "already defined"},
		"bad YAML":        {file: "data: [", want: "not a YAML map"},
		"no such file":    {flags: values{"config": "/none.yaml"}, want: "/none.yaml"},
		"large file":      {file: strings.Repeat("#", 1<<20+1), want: "more than"},
		"listen":          {flags: values{"listen": "8700"}, want: "not an address such as"},
		"port":            {flags: values{"listen": "a:99999"}, want: "not a port"},
		"egress-deny":     {flags: values{"egress-deny": "10.0.0.0/8,lan"}, want: "'lan' is not a CIDR"},
		"egress-log":      {flags: values{"egress-log": "10"}, want: "between 1000 and 10000000"},
		"egress-rate":     {flags: values{"egress-rate": "1"}, want: "less than 64KiB"},
		"labels":          {flags: values{"labels": "zone"}, want: "not a label such as zone=eu"},
		"labels twice":    {flags: values{"labels": "a=1,a=2"}, want: "occurs twice"},
		"registries":      {flags: values{"image-registries": "a,,b"}, want: "'' is not a registry"},
		"parked":          {flags: values{"parked": "1001"}, want: "between 0 and 1000"},
		"isolation":       {flags: values{"isolation": "hope"}, want: "not one of namespace"},
		"docker":          {flags: values{"isolation": "docker"}, want: "--isolation: " + dockerRemoved},
		"docker variable": {environ: values{"STINT_ISOLATION": "docker"}, want: "STINT_ISOLATION: " + dockerRemoved},
		"docker key":      {file: "isolation: docker", want: "'isolation' in /here/c.yaml: " + dockerRemoved},
		"docker host":     {flags: values{"docker-host": "unix:///d.sock"}, want: "--docker-host: " + dockerRemoved},
		"docker host too": {environ: values{"STINT_DOCKER_HOST": "unix:///d.sock"}, want: "STINT_DOCKER_HOST: " + dockerRemoved},
		"docker host key": {file: "docker-host: unix:///d.sock", want: "'docker-host' in /here/c.yaml: " + dockerRemoved},
		"docker runtime":  {environ: values{"STINT_DOCKER_RUNTIME": "crun"}, want: "STINT_DOCKER_RUNTIME: " + dockerRemoved},
		"runtime flag":    {flags: values{"docker-runtime": "crun"}, want: "--docker-runtime: " + dockerRemoved},
		"runtime key":     {file: "docker-runtime: crun", want: "'docker-runtime' in /here/c.yaml: " + dockerRemoved},
		"database":        {flags: values{"database": "mysql://u:hunter2@h/d"}, want: "postgres://"},
		"storage":         {flags: values{"storage": "ftp://x"}, want: "not a folder or a URL"},
		"storage key":     {flags: values{"storage": "s3://AKIA:secret@bucket"}, want: "contains credentials"},
		"storage bucket":  {flags: values{"storage": "s3:///prefix"}, want: "not a folder or a URL"},
		"empty storage":   {flags: values{"storage": ""}, want: "empty"},
		"empty data":      {flags: values{"data": ""}, want: "empty"},
		"public URL":      {flags: values{"public-url": "stint.example"}, want: "http:// or https://"},
		"cpu":             {flags: values{"cpu": "NaN"}, want: "cores"},
		"memory":          {flags: values{"memory": "1KiB"}, want: "less than 16MiB"},
		"memory unit":     {flags: values{"memory": "lots"}, want: "not a size"},
		"pids":            {flags: values{"pids": "1"}, want: "between 8"},
		"short lease":     {flags: values{"lease-ttl": "10ms"}, want: "less than 1s or more than 10m"},
		"long lease":      {flags: values{"lease-ttl": "1h"}, want: "more than 10m"},
		"negative drain":  {flags: values{"drain": "-1s"}, want: "not a duration"},
		"many days":       {flags: values{"queue-expiry": "40000d"}, want: "not a duration"},
		"log level":       {flags: values{"log-level": "loud"}, want: "not one of debug"},
		"no home":         {environ: values{"HOME": ""}, want: "--data DIR or STINT_DATA"},
		"relative home":   {environ: values{"HOME": "x", "XDG_DATA_HOME": "y"}, want: "HOME is 'x'"},
		"long path":       {flags: values{"data": "/" + strings.Repeat("d", 100)}, want: "too long"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			environ := values{"HOME": "/h"}
			maps.Copy(environ, tt.environ)
			files := values{}
			if tt.file != "" {
				files["/here/c.yaml"] = tt.file
				environ["STINT_CONFIG"] = "c.yaml"
			}
			_, err := config.Load(sources(tt.flags, environ, files))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows a password: %v", err)
			}
		})
	}
}

// dockerRemoved is part of the error for each setting of the Docker isolation.
const dockerRemoved = "the Docker isolation was removed; use --isolation namespace, which shares the machine's kernel as Docker does, or --isolation gvisor"

func TestRemovedSettingsAreNotListed(t *testing.T) {
	t.Parallel()
	for _, s := range config.Settings() {
		if strings.HasPrefix(s.Name, "docker-") {
			t.Errorf("the setting %s is listed", s.Name)
		}
	}
}

func TestCheckFlag(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"docker-host", "docker-runtime", "docker-network"} {
		if err := config.CheckFlag(name); err == nil || err.Error() != "--"+name+": "+dockerRemoved {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	for _, name := range []string{"docker", "isolation", "colour", ""} {
		if err := config.CheckFlag(name); err != nil {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// TestDockerVariablesOfOthers checks that DOCKER_HOST, a variable of the docker command,
// has no effect, and that an empty STINT_DOCKER_HOST has none either.
func TestDockerVariablesOfOthers(t *testing.T) {
	t.Parallel()
	environ := values{"HOME": "/h", "DOCKER_HOST": "unix:///d.sock", "STINT_DOCKER_HOST": ""}
	if c, err := config.Load(sources(nil, environ, nil)); err != nil || c.Isolation != "namespace" {
		t.Errorf("isolation %q, error %v", c.Isolation, err)
	}
}

func TestMissingFileIsRecognisable(t *testing.T) {
	t.Parallel()
	if _, err := config.Load(sources(values{"config": "/none"}, nil, nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v, want %v", err, fs.ErrNotExist)
	}
}

func TestDefaultData(t *testing.T) {
	t.Parallel()
	got, err := config.Load(sources(nil, values{"HOME": "/h", "XDG_DATA_HOME": "/x"}, nil))
	if err != nil || got.Data != "/x/stint" || got.Socket() != "/x/stint/stint.sock" {
		t.Errorf("data %q, socket %q, error %v", got.Data, got.Socket(), err)
	}
}

// TestDocs compares docs/configuration.md with the settings. The flag -update rewrites the
// file.
func TestDocs(t *testing.T) {
	t.Parallel()
	const file = "../../docs/configuration.md"
	table := settingsTable()
	if got, want := strings.Count(table, "\n"), len(config.Settings())+2; got != want {
		t.Errorf("%d lines, want %d", got, want)
	}
	want := docsHead + table
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("run make docs (-want +got):\n%s", diff)
	}
}

// settingsTable returns the settings as a Markdown table.
func settingsTable() string {
	var b strings.Builder
	b.WriteString("| Flag and key | Environment | Default | What it does |\n")
	b.WriteString("| --- | --- | --- | --- |\n")
	for _, s := range config.Settings() {
		fmt.Fprintf(&b, "| `--%s %s` | `%s` | %s | %s. |\n", s.Name, cell(s.Value), s.Env(), cell(s.Default), cell(strings.ToUpper(s.Text[:1])+s.Text[1:]))
	}
	return b.String()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

const docsHead = `# Configuration

The settings of ` + "`" + `stint serve` + "`" + `. Flags override the environment, the environment overrides
the configuration file, and the file overrides the defaults. ` + "`" + `--config` + "`" + ` or ` + "`" + `STINT_CONFIG` + "`" + `
names the file. It is YAML, and its keys are the names of the flags. An unknown key is an
error:

    listen: 0.0.0.0:8700
    public-url: https://stint.example
    capacity: 16
    queue-expiry: 2d

Durations are written as ` + "`" + `90s` + "`" + `, ` + "`" + `2h` + "`" + `, or ` + "`" + `30d` + "`" + `, sizes as ` + "`" + `512MiB` + "`" + ` or ` + "`" + `2GiB` + "`" + `.

`

// FuzzFile checks that any content of the configuration file results in a valid
// configuration or in an error.
func FuzzFile(f *testing.F) {
	f.Add("capacity: 5\nlisten: ':0'\n")
	f.Add("a: &a [*a]")
	f.Add("? {x: y}\n: z")
	f.Fuzz(func(t *testing.T, content string) {
		s := sources(values{"config": "/c"}, values{"HOME": "/h"}, values{"/c": content})
		if c, err := config.Load(s); err == nil && (c.Data == "" || c.LeaseTTL < time.Second) {
			t.Errorf("an invalid configuration was accepted: %+v", c)
		}
	})
}
