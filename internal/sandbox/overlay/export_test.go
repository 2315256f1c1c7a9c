//go:build linux && (amd64 || arm64)

package overlay

// MountMappedInNamespace is MountMapped for kernels that require all folders to
// be mounted.
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

// AsUser calls a function as another user for file access.
func AsUser(user int, call func() error) error {
	_, err := onNewThread(func() (int, error) {
		if err := setFileUser(user); err != nil {
			return -1, err
		}
		return -1, call()
	})
	return err
}
