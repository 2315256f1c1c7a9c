package plainjson_test

import (
	"encoding/json"
	"testing"

	"github.com/stint-dev/stint/internal/plainjson"
)

func TestMarshal(t *testing.T) {
	t.Parallel()
	in := map[string]any{"prompt": "a < b && c > \"d\"", "raw": json.RawMessage(`{ "x": "<&>" }`)}
	got, err := plainjson.Marshal(in)
	if want := `{"prompt":"a < b && c > \"d\"","raw":{"x":"<&>"}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if _, err := plainjson.Marshal(func() {}); err == nil {
		t.Error("a function was encoded")
	}
}
