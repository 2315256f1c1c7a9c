package sqlstore

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
)

// micros returns the column value of a time: Unix time in microseconds,
// truncated to whole milliseconds.
func micros(t stint.Time) int64 { return stint.TimeOf(t.Time).UnixMicro() }

func microsOrNil(t *stint.Time) any {
	if t == nil {
		return nil
	}
	return micros(*t)
}

// textOrNil returns the column value of an optional text.
func textOrNil(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

// emptyOrNil returns the column value of a text that is null if the text is empty.
func emptyOrNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// raw returns the column value of JSON: its text, or null if j is nil.
func raw(j json.RawMessage) any {
	if j == nil {
		return nil
	}
	return string(j)
}

// asJSON returns the column value of a map, a slice, or a pointer: its JSON text, or null
// if v is nil.
func asJSON(v any) any {
	if reflect.ValueOf(v).IsNil() {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic("sqlstore: " + err.Error()) // maps and slices of strings can always be encoded
	}
	return string(text)
}

// escape converts a text so that a column can store it: PostgreSQL refuses U+0000
// and invalid UTF-8, but users and agents write both. U+0000 becomes \x01 and the
// digit 0, \x01 becomes \x01 and the digit 1, and each run of invalid bytes becomes
// U+FFFD.
func escape(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if !strings.ContainsAny(s, "\x00\x01") {
		return s
	}
	return escaper.Replace(s)
}

var (
	escaper   = strings.NewReplacer("\x00", "\x010", "\x01", "\x011")
	unescaper = strings.NewReplacer("\x010", "\x00", "\x011", "\x01")
)

// clean returns the arguments of a statement with strings escaped. It does not
// modify args.
func clean(args []any) []any {
	for i, a := range args {
		text, ok := a.(string)
		if !ok {
			continue
		}
		if e := escape(text); e != text {
			args = slices.Clone(args)
			args[i] = e
		}
	}
	return args
}

// These types are destinations of Scan that reverse the conversions above. If
// the column is null, timeOr, freeOr, and jsonOf leave their target unchanged.
type (
	timeAt   struct{ to *stint.Time }
	timeOr   struct{ to **stint.Time }
	freeText struct{ to *string }
	freeOr   struct{ to **string }
	jsonOf   struct{ to any }
)

func (d timeAt) Scan(src any) error {
	us, ok := src.(int64)
	if !ok {
		return fmt.Errorf("time column has type %T", src)
	}
	*d.to = stint.TimeOfMicros(us)
	return nil
}

func (d timeOr) Scan(src any) error {
	if src == nil {
		return nil
	}
	*d.to = new(stint.Time)
	return timeAt{*d.to}.Scan(src)
}

func (d freeText) Scan(src any) error {
	text, err := textOf(src)
	if err == nil {
		*d.to = unescaper.Replace(text)
	}
	return err
}

func (d freeOr) Scan(src any) error {
	if src == nil {
		return nil
	}
	*d.to = new(string)
	return freeText{*d.to}.Scan(src)
}

func (d jsonOf) Scan(src any) error {
	if src == nil {
		return nil
	}
	text, err := textOf(src)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), d.to)
}

func textOf(src any) (string, error) {
	switch v := src.(type) {
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	}
	return "", fmt.Errorf("text column has type %T", src)
}
