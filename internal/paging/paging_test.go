package paging_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/store"
)

func newList(name string) paging.List {
	return paging.List{Signer: auth.New(auth.Config{Key: make([]byte, auth.KeySize)}), Org: "org_a", Name: name}
}

func TestParseLimit(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int{"1": 1, "100": 100, "0": 0, "101": 0, "-1": 0, "01": 0, "+1": 0, "": 0, "ten": 0} {
		got, err := paging.ParseLimit(s, stint.MaxLimit)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("ParseLimit(%q) = %d, %v", s, got, err)
		}
	}
}

func TestCursor(t *testing.T) {
	t.Parallel()
	at := stint.TimeOf(time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC))
	list := newList("/v1/runs?status=failed")
	cursor := *list.Next(paging.EncodeKey(at, "run_1")).NextCursor
	position, err := list.Position(cursor)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := paging.DecodeKey(position); err != nil || key != (store.Cursor{At: at, ID: "run_1"}) {
		t.Errorf("the key is %v, %v", key, err)
	}
	if _, err := newList("/v1/runs").Position(cursor); !errors.Is(err, paging.ErrCursor) {
		t.Errorf("the cursor of another list returned %v", err)
	}
	if key, err := paging.DecodeKey(nil); err != nil || key != (store.Cursor{}) {
		t.Errorf("an empty position is decoded as %v, %v", key, err)
	}
	if _, err := paging.DecodeKey([]byte("secret")); !errors.Is(err, paging.ErrCursor) {
		t.Errorf("a position of another kind returned %v", err)
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	list := newList("/v1/x")
	position := func(s *string) []byte { return []byte((*s)[:1]) }
	large := strings.Repeat("x", paging.MaxPageBytes)
	for name, c := range map[string]struct {
		items []string
		more  bool
		count int    // number of encoded items
		after string // position of the next page
	}{
		"empty":               {nil, false, 0, ""},
		"last page":           {[]string{"a", "b"}, false, 2, ""},
		"followed by another": {[]string{"a", "b"}, true, 2, "b"},
		"too large":           {[]string{"a", large, "c"}, false, 2, "x"},
	} {
		raw, err := paging.Encode(list, c.items, c.more, position)
		if err != nil {
			t.Fatal(err)
		}
		var page stint.Page[string]
		if err := json.Unmarshal(raw, &page); err != nil || len(page.Data) != c.count || page.Data == nil {
			t.Errorf("%s: %d items, %v", name, len(page.Data), err)
		}
		var after []byte
		if page.Pagination.NextCursor != nil {
			after, _ = list.Position(*page.Pagination.NextCursor)
		}
		if page.Pagination.HasMore != (c.after != "") || !bytes.Equal(after, []byte(c.after)) {
			t.Errorf("%s: pagination %+v, position %q", name, page.Pagination, after)
		}
	}
}
