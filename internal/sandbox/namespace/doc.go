// Package namespace implements sandboxes with Linux namespaces. It needs
// nothing but a Linux kernel.
//
// Each sandbox is a process tree in its own user, mount, PID, network, IPC,
// UTS, and cgroup namespaces. Its first process, init, is this program started
// under another name (package setup). Init builds a root from the read-only
// system, of the host or an image, and the caller's folders, redirects the
// network if one is requested (package capture), drops all privileges except those
// for mounting, and waits on a socket. Attach sets the limits and adds the mounts of
// a run. When the command starts, init drops the remaining privileges and loads the
// system call filter and the Landlock rules. It then reaps processes. When the
// socket closes, init exits, and the kernel ends all other processes of the sandbox.
// Therefore no process, mount, or network remains if the server is killed or the
// agent starts a daemon.
//
// If the server runs as root, each sandbox gets a range of user IDs that no
// account of the host has, and the caller's folders are ID-mapped mounts: they
// belong to the agent inside and to the server outside. Otherwise the agent is
// the server's user in a user namespace. In both cases the agent is user 1000
// inside.
//
// Overlays (package overlay) are mounted by the server from ID-mapped folders
// if it runs as root, and by init from the host's folders otherwise.
//
// The agent may change its folders while the server reads them, so the server must
// not follow symbolic links in them. The system call filter refuses the setuid and
// setgid bits, so files of the agent never grant their owner's privileges.
package namespace
