//go:build linux && (amd64 || arm64)

// Package rootfs selects the files of a sandbox's root file system.
//
// A sandbox shows programs and libraries of the host's system or of an image. Of the
// host's /etc, it shows only files that programs need and that reveal nothing about
// the host. Other files of /etc are generated.
package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/layout"
)

// systemDirs are the host's folders with programs and libraries. Every sandbox
// without an image shows them.
var systemDirs = []string{"/usr", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"}

// CheckPrivate returns an error if one of folders is in systemDirs or below such a folder:
// sandboxes would show it, and an agent that runs as the server's user could read it.
func CheckPrivate(folders []string) error {
	for _, f := range folders {
		real, err := filepath.EvalSymlinks(f)
		if err != nil {
			return fmt.Errorf("private folder: %w", err)
		}
		for _, dir := range systemDirs {
			if shown, err := filepath.EvalSymlinks(dir); err == nil && (real == shown || strings.HasPrefix(real, shown+"/")) {
				return fmt.Errorf("the folder %s is below %s, which every sandbox shows; keep Stint's data elsewhere", f, dir)
			}
		}
	}
	return nil
}

// etcFromHost are the parts of /etc that host programs need and that reveal
// nothing about the host. Private keys, passwords, accounts, mounts, and
// definitions of system services are not included.
var etcFromHost = []string{
	"alternatives", "bash.bashrc", "bash_completion.d", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version",
	"fonts", "host.conf", "inputrc", "java*", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime",
	"lsb-release", "magic", "magic.mime", "maven", "mime.types", "os-release", "perl", "profile", "profile.d", "protocols", "python*",
	"pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf", "redhat-release", "rpc", "services", "shells",
	"ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
}

// HostEntries returns the entries of the host's system that a sandbox without an
// image shows. A folder comes before its entries.
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
		found, _ := filepath.Glob("/etc/" + pattern) // fails only for a malformed pattern
		for _, path := range found {
			add(path)
		}
	}
	return list
}

// HostShows reports whether HostEntries shows path unchanged. The path must not
// contain symbolic links.
func HostShows(path string) bool {
	for _, e := range HostEntries() {
		if e.Link == "" && (path == e.Path || !e.File && strings.HasPrefix(path, e.Path+"/")) {
			return true
		}
	}
	return false
}

// Nameserver is the address of the DNS server that programs inside use. It is a
// reserved address (TEST-NET-1); package capture redirects the requests that programs send
// to this address. In a sandbox without a network, requests fail immediately.
const Nameserver = "192.0.2.53"

// Etc returns the generated files of /etc.
func Etc() []layout.File {
	if _, err := os.Stat("/bin/bash"); err == nil {
		return etcWithShell("/bin/bash")
	}
	return etcWithShell("/bin/sh")
}

// etcWithShell returns the files of Etc with shell as the agent's login shell.
func etcWithShell(shell string) []layout.File {
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
