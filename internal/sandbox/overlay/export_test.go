//go:build linux && (amd64 || arm64)

package overlay

// MappedBefore is Mapped as kernels do it that want all folders mounted.
func MappedBefore(layers []string, upper string, userns, agent int) (int, error) {
	s := &shown{Folders: Folders{Upper: -1, Work: -1}}
	defer s.close()
	if err := s.add(layers, upper, userns); err != nil {
		return -1, err
	}
	return apart(func() (int, error) {
		if err := takeUser(agent); err != nil {
			return -1, err
		}
		return s.mounted()
	})
}

// As calls as a user of the host's files.
func As(user int, call func() error) error {
	_, err := apart(func() (int, error) {
		if err := takeUser(user); err != nil {
			return -1, err
		}
		return -1, call()
	})
	return err
}
