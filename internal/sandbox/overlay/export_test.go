//go:build linux && (amd64 || arm64)

package overlay

// MountMappedInNamespace is like MountMapped, but always uses the method for kernels
// that require the folders of an overlay to be mounted.
func MountMappedInNamespace(layers []string, upper string, userns, agent int) (int, error) {
	s := &mappedFolders{Folders: Folders{Upper: -1, Work: -1}}
	defer s.close()
	if err := s.add(layers, upper, userns); err != nil {
		return -1, err
	}
	return onNewThread(func() (int, error) {
		if err := setFileUser(agent); err != nil {
			return -1, err
		}
		return s.mountInNamespace()
	})
}

// AsUser calls a function on a thread that accesses files as the given user, and returns
// the function's error.
func AsUser(user int, call func() error) error {
	_, err := onNewThread(func() (int, error) {
		if err := setFileUser(user); err != nil {
			return -1, err
		}
		return -1, call()
	})
	return err
}
