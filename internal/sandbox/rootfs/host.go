//go:build linux && (amd64 || arm64)

// Package hostview answers: what of the host's own system does a sandbox show?
//
// Programs and their libraries, and of /etc what they need and what tells
// nothing about the host; the rest of /etc is made up.
package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/layout"
)

// systemDirs hold programs and their libraries.
var systemDirs = []string{"/usr", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"}

// CheckPrivate fails for folders that an agent would see with the system: where
// the agent is the server's own user, it could read them.
func CheckPrivate(folders []string) error {
	for _, f := range folders {
		real, err := filepath.EvalSymlinks(f)
		if err != nil {
			return fmt.Errorf("private folder: %w", err)
		}
		for _, dir := range systemDirs {
			if shown, err := filepath.EvalSymlinks(dir); err == nil && (real == shown || strings.HasPrefix(real, shown+"/")) {
				return fmt.Errorf("the folder %s lies below %s, which every sandbox shows; keep Stint's data elsewhere", f, dir)
			}
		}
	}
	return nil
}

// etcFromHost are the parts of /etc without which programs of the host do not
// work, and which tell nothing about it. Keys, passwords, accounts, mounts and
// services stay out.
var etcFromHost = []string{
	"alternatives", "bash.bashrc", "bash_completion.d", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version",
	"fonts", "host.conf", "inputrc", "java*", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime",
	"lsb-release", "magic", "magic.mime", "maven", "mime.types", "os-release", "perl", "profile", "profile.d", "protocols", "python*",
	"pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf", "redhat-release", "rpc", "services", "shells",
	"ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
}

// HostEntries lists what of the host every sandbox shows, folders before what lies
// in them.
func HostEntries() []layout.Entry {
	var list []layout.Entry
	add := func(path string) {
		st, err := os.Lstat(path)
		if err != nil {
			return
		}
		e := layout.Entry{Path: path, File: st.Mode().IsRegular()}
		if st.Mode()&os.ModeSymlink != 0 {
			if e.Link, err = os.Readlink(path); err != nil {
				return
			}
		} else if !st.IsDir() && !e.File {
			return
		}
		list = append(list, e)
	}
	for _, dir := range systemDirs {
		add(dir)
	}
	for _, pattern := range etcFromHost {
		found, _ := filepath.Glob("/etc/" + pattern) // only a malformed pattern is an error
		for _, path := range found {
			add(path)
		}
	}
	return list
}

// HostShows tells whether HostEntries shows a path without links in it as it is.
func HostShows(path string) bool {
	for _, e := range HostEntries() {
		if e.Link == "" && (path == e.Path || !e.File && strings.HasPrefix(path, e.Path+"/")) {
			return true
		}
	}
	return false
}

// CertificateFiles are the files in which programs look for the authorities that they
// trust: Debian's and its kin's, Fedora's, Alpine's and OpenSSL's, SUSE's. The
// first is made where there is none.
var CertificateFiles = layout.CertificateFiles

// Nameserver is whom programs inside ask for names: an address that nobody has
// (TEST-NET-1). Without a network it cannot be reached, and they are told so at
// once.
const Nameserver = "192.0.2.53"

// Etc is the rest of /etc.
func Etc() []layout.File {
	if _, err := os.Stat("/bin/bash"); err == nil {
		return EtcWith("/bin/bash")
	}
	return EtcWith("/bin/sh")
}

// EtcWith is Etc for a system whose shell is elsewhere.
func EtcWith(shell string) []layout.File {
	return []layout.File{
		{Name: "passwd", Data: []byte("root:x:0:0:root:/root:/usr/sbin/nologin\n" +
			"agent:x:1000:1000:agent:/home/agent:" + shell + "\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n")},
		{Name: "group", Data: []byte("root:x:0:\ntty:x:5:\nagent:x:1000:\nnogroup:x:65534:\n")},
		{Name: "hostname", Data: []byte(agentinit.HostName + "\n")},
		{Name: "hosts", Data: []byte("127.0.0.1 localhost " + agentinit.HostName + "\n::1 localhost ip6-localhost ip6-loopback\n")},
		{Name: "nsswitch.conf", Data: []byte("passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n")},
		{Name: "resolv.conf", Data: []byte("nameserver " + Nameserver + "\n")},
		{Name: "machine-id", Data: []byte("00000000000000000000000000000001\n")},
	}
}
