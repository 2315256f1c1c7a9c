// Package namespace implements sandboxes with Linux namespaces. It needs
// nothing but a Linux kernel.
//
// Each sandbox is a process tree in its own user, mount, PID, network, IPC,
// UTS, and cgroup namespaces. Its first process, init, is this program started
// under another name (package setup). Init builds a root from the read-only
// system, of the host or an image, and the caller's folders, redirects the
// network if there is one (package capture), drops all privileges but that to
// mount, and waits on a socket. Attach adds what a run needs beyond that. When
// the command starts, init drops the remaining privileges and loads the system
// call filter and the Landlock rules. It remains as the reaper, and exits,
// ending all other processes, when the socket closes. A killed server or a
// daemon of the agent therefore leaves no process, mount, or network behind.
//
// If the server runs as root, each sandbox gets a range of user IDs that no
// account of the host has, and the caller's folders are ID-mapped mounts: they
// belong to the agent inside and to the server outside. Otherwise the agent is
// the server's user in a user namespace. Inside it is user 1000 in both cases.
//
// Overlays (package overlay) are mounted by the server from ID-mapped folders
// if it runs as root, and by init from the host's folders otherwise.
//
// The agent may change its folders while the server reads them, so the server
// must not follow links in them. The filter refuses the setuid and setgid bits,
// so files of the agent never grant their owner's privileges.
package namespace
