// Package docker answers: how is an agent kept in by a Docker daemon?
//
// Each sandbox is a container on this very host. Its first process is the
// warden, our own static program: it connects to a socket in a folder that the
// container shows it, and from there on commands, streams and ends are the same
// as in every other sandbox. The daemon builds the container and removes it; in
// between it is not asked.
//
// The container's root is a tiny image that the driver imports: links, empty
// folders and /etc. Programs and the caller's folders are shown by mounts that
// the driver makes, read-only or ID-mapped, so the agent owns its folders inside
// and the server outside, and no image is ever pulled. The mounts exist on the
// host only while a container starts.
//
// The container has no network of Docker's, no capability that an agent could
// use, the daemon's system call filter and ours. The daemon's socket is in no
// sandbox.
package docker
