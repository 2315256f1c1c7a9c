package stint

import (
	"fmt"
	"strconv"
	"time"
)

// TimeLayout is how the API writes times: RFC 3339, UTC, milliseconds.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// Time is an instant with the API's resolution of one millisecond.
type Time struct{ time.Time }

// TimeOf rounds t down to the millisecond, in UTC.
func TimeOf(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// TimeOfMicros is the instant that lies us microseconds after the Unix epoch.
func TimeOfMicros(us int64) Time { return TimeOf(time.UnixMicro(us)) }

// ParseTime reads an ISO 8601 (RFC 3339) instant. What is finer than a
// millisecond is cut off, as it is in every time that the API shows.
func ParseTime(s string) (Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() < 1 || t.Year() > 9999 {
		return Time{}, fmt.Errorf("%q is no RFC 3339 time such as %s", Excerpt(s, 64), "2026-01-02T15:04:05.000Z")
	}
	return TimeOf(t), nil
}

// String is the API's form.
func (t Time) String() string { return t.UTC().Format(TimeLayout) }

// MarshalJSON writes the API's form.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalJSON reads what ParseTime reads.
func (t *Time) UnmarshalJSON(b []byte) error {
	s, err := strconv.Unquote(string(b))
	if err != nil {
		return fmt.Errorf("a time is a JSON string, not %s", b)
	}
	*t, err = ParseTime(s)
	return err
}
