package apitest

import (
	"encoding/json"
	"testing"
)

// Example is an example of the API document as JSON, by its name under
// components/examples, for use as a fixture.
func Example(t testing.TB, name string) []byte {
	t.Helper()
	example := promised().Components.Examples[name]
	if example == nil {
		t.Fatalf("the API document has no example '%s'", name)
	}
	raw, err := json.Marshal(example.Value.Value)
	if err != nil {
		t.Fatalf("example '%s': %v", name, err)
	}
	return raw
}
