package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// maxFile bounds the configuration file, in bytes.
const maxFile = 1 << 20

// readFile reads the settings of the file as the text that flags would have.
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
		// Without the lines around the fault, which may hold a password.
		return nil, fmt.Errorf("it is no YAML map of settings: %s", strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	values := make(map[string]string, len(raw))
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		if !slices.ContainsFunc(slices.Concat(settings, removed), func(o setting) bool { return o.name == key }) {
			return nil, fmt.Errorf("unknown key '%s'%s", key, nearest(key))
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
	return "", fmt.Errorf("the value must be one piece of text or a number")
}

// nearest suggests the setting that is spelled like key, but for case and
// word separators.
func nearest(key string) string {
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(s))
	}
	for _, o := range settings {
		if plain(o.name) == plain(key) {
			return "; did you mean '" + o.name + "'?"
		}
	}
	return ""
}
