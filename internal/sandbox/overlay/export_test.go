//go:build linux && (amd64 || arm64)

package overlay

// MappedBefore is MountMapped as kernels do it that want all folders mounted.
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

// As calls as a user of the host's files.
func AsUser(user int, call func() error) error {
	_, err := onNewThread(func() (int, error) {
		if err := setFileUser(user); err != nil {
			return -1, err
		}
		return -1, call()
	})
	return err
}
