// Package namespace answers: how is an agent kept in on a plain Linux host,
// with nothing installed?
//
// Each sandbox is a process tree in user, mount, PID, network, IPC, UTS and
// cgroup namespaces of its own. Its first process is this very program, started
// again under another name (package inside): it builds a root of the read-only
// system, the host's or an image's, and the caller's folders, captures the
// network if there is to be one (package capture), gives up all rights but that
// to mount, and waits on a socket. What a run needs beyond is attached then; at
// the start of the command it gives up the rest, loads a system call filter and
// Landlock's rules. It stays as the reaper, and ends, taking everything inside
// along, when the socket closes. So neither a killed server nor a daemon of the
// agent leaves a process, a mount or a network behind.
//
// With root's rights each sandbox gets a range of user IDs that no account of
// the host has, and the caller's folders are shown by ID-mapped mounts: the
// agent owns them inside, the server outside. Without, the agent is the
// server's user in a user namespace. Inside it is user 1000 either way.
//
// Layers are laid over each other by package overlay: with root's rights by the
// server, of ID-mapped folders, without by init, of the host's, whose mounts are
// init's own. Either way the overlay is a mount like the others.
//
// What the agent may do to its folders it may also do while the server reads
// them: readers on the host must not follow links. The filter refuses the
// setuid and setgid bits, so a file that the agent leaves gives nobody its
// owner's rights.
package namespace
