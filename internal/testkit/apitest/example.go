package apitest

import (
	"encoding/json"
	"testing"
)

// Example returns an example of the API document as JSON, for use as a fixture. name is
// its name in components/examples. If the example does not exist, the test fails.
func Example(t testing.TB, name string) []byte {
	t.Helper()
	example := embedded().Components.Examples[name]
	if example == nil {
		t.Fatalf("the API document has no example '%s'", name)
	}
	raw, err := json.Marshal(example.Value.Value)
	if err != nil {
		t.Fatalf("example '%s': %v", name, err)
	}
	return raw
}
