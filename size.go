package stint

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. In JSON it is a number, or a string with or without a
// unit ("2GiB", "500MB", "1000").
type Size int64

// Units of sizes.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

var units = []struct {
	suffix string
	factor float64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

// ParseSize parses a size such as "512MiB", "2 GiB", or "100000". Negative sizes
// and sizes of 8 EiB and more are errors.
func ParseSize(s string) (Size, error) {
	number, factor := strings.TrimSpace(s), 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(f) || f < 0 || f*factor >= math.MaxInt64 {
		return 0, fmt.Errorf("'%s' is not a size such as 512MiB or 2GiB", Excerpt(s, 64))
	}
	return Size(f * factor), nil
}

// String returns the size in the largest binary unit of which it is a multiple, such
// as "512MiB", or as a number of bytes.
func (s Size) String() string {
	for _, u := range []struct {
		size Size
		name string
	}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalJSON encodes the result of String.
func (s Size) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON decodes a number of bytes, or a string that ParseSize accepts.
func (s *Size) UnmarshalJSON(b []byte) error {
	text := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	v, err := ParseSize(text)
	if err == nil {
		*s = v
	}
	return err
}
