package stint

import (
	"fmt"
	"strconv"
	"time"
)

// TimeLayout is the format of times in the API: RFC 3339, UTC, milliseconds.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// Time is a time with a resolution of one millisecond.
type Time struct{ time.Time }

// TimeOf returns t in UTC, rounded down to the millisecond.
func TimeOf(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// TimeOfMicros returns the time us microseconds after the Unix epoch.
func TimeOfMicros(us int64) Time { return TimeOf(time.UnixMicro(us)) }

// ParseTime parses an RFC 3339 time and rounds it down to the millisecond.
func ParseTime(s string) (Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() < 1 || t.Year() > 9999 {
		return Time{}, fmt.Errorf("%q is not an RFC 3339 time such as %s", Excerpt(s, 64), "2026-01-02T15:04:05.000Z")
	}
	return TimeOf(t), nil
}

// String returns the time in TimeLayout.
func (t Time) String() string { return t.UTC().Format(TimeLayout) }

// MarshalJSON encodes the time in TimeLayout.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalJSON decodes a string with ParseTime.
func (t *Time) UnmarshalJSON(b []byte) error {
	s, err := strconv.Unquote(string(b))
	if err != nil {
		return fmt.Errorf("a time is a JSON string, not %s", b)
	}
	*t, err = ParseTime(s)
	return err
}
