// Package namespace answers: how is an agent kept in on a plain Linux host,
// with nothing installed?
//
// Each sandbox is a process tree in user, mount, PID, network, IPC, UTS and
// cgroup namespaces of its own. Its first process is this very program, started
// again under another name (package inside): it builds a root of the host's
// read-only system folders and the caller's folders, gives up its rights, loads
// a system call filter, and waits on a socket for the command. It stays as the
// reaper, and ends, taking everything inside along, when the socket closes. So
// neither a killed server nor a daemon of the agent leaves a process behind.
//
// With root's rights each sandbox gets a range of user IDs that no account of
// the host has, and the caller's folders are shown by ID-mapped mounts: the
// agent owns them inside, the server outside. Without, the agent is the
// server's user in a user namespace. Inside it is user 1000 either way.
//
// What the agent may do to its folders it may also do while the server reads
// them: readers on the host must not follow links. The filter refuses the
// setuid bit, so a file that the agent leaves gives nobody its owner's rights.
package namespace
