package blob

import (
	"errors"
	"fmt"
	"strings"
)

// MaxKey and MaxElement bound keys and their elements, in bytes, so that every
// adapter supports every key: file systems limit names to 255 bytes.
const (
	MaxKey     = 512
	MaxElement = 200
)

// CheckKey returns an error if key is not valid. Adapters call it first.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKey {
		return fmt.Errorf("blob: a key has 1 to %d bytes, not %d", MaxKey, len(key))
	}
	for element := range strings.SplitSeq(key, "/") {
		if err := checkElement(element); err != nil {
			return fmt.Errorf("blob: key %q: %w", key, err)
		}
	}
	return nil
}

// CanStartKey reports whether a valid key can start with prefix.
func CanStartKey(prefix string) bool {
	return prefix == "" || CheckKey(prefix) == nil || CheckKey(prefix+"x") == nil
}

func checkElement(e string) error {
	switch {
	case e == "" || e == "." || e == "..":
		return fmt.Errorf("the element %q is not allowed", e)
	case len(e) > MaxElement:
		return fmt.Errorf("an element has at most %d bytes", MaxElement)
	}
	for i := range len(e) {
		if c := e[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return errors.New("only a-z, 0-9, '.', '_' and '-' are allowed")
		}
	}
	return nil
}
