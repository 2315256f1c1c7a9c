// Package paging implements the pages of lists: limits, keyset cursors, and the
// JSON of a page.
//
// A cursor contains the position of the last item of a page. It is signed together
// with the list, its filters, and the organisation, so that it is valid only for the
// same list.
package paging

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/plainjson"
	"github.com/stint-dev/stint/internal/store"
)

// MaxPageBytes is the size after which a page ends, even if it has fewer items than
// requested.
const MaxPageBytes = 8 << 20

// Signer signs cursors. *auth.Service implements it.
type Signer interface {
	SignCursor(org, list string, position []byte) string
	// VerifyCursor returns the position in cursor. It returns false if cursor was
	// not signed for the organisation and the list.
	VerifyCursor(org, list, cursor string) ([]byte, bool)
}

// ErrCursor is returned for a cursor that was not signed for the list.
var ErrCursor = stint.InvalidParam("cursor", "'cursor' is not a cursor of this list. Send pagination.nextCursor of the previous page with the same filters.")

// ParseLimit parses the maximum number of items in a response. It returns an error if
// the number is not from 1 to most.
func ParseLimit(s string, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most || strconv.Itoa(n) != s {
		return 0, stint.InvalidParam("limit", "'limit' must be a whole number from 1 to %d.", most)
	}
	return n, nil
}

// List identifies a list of an organisation. Name includes the filters.
type List struct {
	Signer Signer
	Org    string
	Name   string
}

// Position returns the position in a cursor of the list, or ErrCursor.
func (l List) Position(cursor string) ([]byte, error) {
	position, ok := l.Signer.VerifyCursor(l.Org, l.Name, cursor)
	if !ok {
		return nil, ErrCursor
	}
	return position, nil
}

// Next returns the pagination of a page that is not the last: the next page begins
// after position.
func (l List) Next(position []byte) stint.Pagination {
	cursor := l.Signer.SignCursor(l.Org, l.Name, position)
	return stint.Pagination{HasMore: true, NextCursor: &cursor}
}

// EncodeKey returns the position of an item in a list that is sorted by time and
// identifier.
func EncodeKey(at stint.Time, id string) []byte {
	return fmt.Appendf(nil, "%d %s", at.UnixMicro(), id)
}

// DecodeKey decodes a result of EncodeKey, or returns ErrCursor. For an empty
// position, it returns the zero cursor: the beginning of the list.
func DecodeKey(position []byte) (store.Cursor, error) {
	if len(position) == 0 {
		return store.Cursor{}, nil
	}
	micros, id, _ := strings.Cut(string(position), " ")
	us, err := strconv.ParseInt(micros, 10, 64)
	if err != nil {
		return store.Cursor{}, ErrCursor
	}
	return store.Cursor{At: stint.TimeOfMicros(us), ID: id}, nil
}

// Encode returns the JSON of a page with the items. It omits the items that follow
// the one that reaches MaxPageBytes. The page has a cursor for the next page if more
// is true or items were omitted. position returns the position of an item.
func Encode[T any](l List, items []T, more bool, position func(*T) []byte) (json.RawMessage, error) {
	page, encoded := []byte(`{"data":[`), 0
	for ; encoded < len(items) && len(page) < MaxPageBytes; encoded++ {
		item, err := plainjson.Marshal(&items[encoded])
		if err != nil {
			return nil, fmt.Errorf("encode a page: %w", err)
		}
		page = append(append(page, item...), ',')
	}
	page = bytes.TrimSuffix(page, []byte(","))
	var p stint.Pagination
	if more || encoded < len(items) {
		p = l.Next(position(&items[encoded-1]))
	}
	pagination, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode a page: %w", err)
	}
	return append(append(append(page, `],"pagination":`...), pagination...), '}'), nil
}
