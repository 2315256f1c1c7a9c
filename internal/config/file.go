package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/stint-dev/stint/internal/spelling"
)

// maxFile is the maximum size of the configuration file, in bytes.
const maxFile = 1 << 20

// readFile returns the settings in the configuration file by name. Values are text,
// like those of flags. If path is empty, readFile returns nil.
func (s Sources) readFile(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	content, err := s.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration file: %w", err)
	}
	values, err := parseFile(content)
	if err != nil {
		return nil, fmt.Errorf("the configuration file %s: %w", path, err)
	}
	return values, nil
}

func parseFile(content []byte) (map[string]string, error) {
	if len(content) > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	var raw map[string]any
	if err := yaml.Unmarshal(content, &raw); err != nil {
		// The message omits the lines at the error, which may contain a password.
		return nil, fmt.Errorf("it is not a YAML map of settings: %s", strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	settings := new(Config).settings()
	values := make(map[string]string, len(raw))
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		if !slices.ContainsFunc(slices.Concat(settings, removed), func(s Setting) bool { return s.Name == key }) {
			return nil, fmt.Errorf("unknown key '%s'%s", key, suggestion(key, settings))
		}
		value, err := scalar(raw[key])
		if err != nil {
			return nil, fmt.Errorf("'%s': %w", key, err)
		}
		values[key] = value
	}
	return values, nil
}

func scalar(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case uint64:
		return strconv.FormatUint(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	return "", errors.New("the value must be a single text or number")
}

// suggestion returns a hint with the name of the setting that key most likely means. If
// there is none, suggestion returns "".
func suggestion(key string, settings []Setting) string {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.Name
	}
	if near := spelling.Nearest(key, names); near != "" {
		return "; did you mean '" + near + "'?"
	}
	return ""
}
