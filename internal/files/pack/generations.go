package pack

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/blob"
)

// Objects never change. The key of a replacement is the key of the original followed
// by ".1", then ".2", and so on. Replacements are, for example, a pack without its
// unreferenced segments, or a new root in place of a root that is about to be
// deleted.

// Generation is an object or a replacement of it.
type Generation struct {
	N   int // 0 is the original; its key has no number
	Key string
}

// GenerationKey returns the key of replacement n of the object with the given key. 0
// is the original.
func GenerationKey(key string, n int) string {
	if n == 0 {
		return key
	}
	return key + "." + strconv.Itoa(n)
}

// SplitGeneration splits a key into the key of the original and the number of the
// replacement. If the number is malformed, ok is false.
func SplitGeneration(key string) (first string, n int, ok bool) {
	first, number, later := strings.Cut(key, ".")
	if !later {
		return key, 0, true
	}
	n, err := strconv.Atoi(number)
	return first, n, err == nil && n > 0 && strconv.Itoa(n) == number
}

// LaterGenerations lists the replacements of key, the newest first.
func LaterGenerations(ctx context.Context, s blob.Store, key string) ([]Generation, error) {
	var all []Generation
	for info, err := range s.List(ctx, key+".") {
		if err != nil {
			return nil, fmt.Errorf("listing the replacements of %s: %w", key, err)
		}
		if first, n, ok := SplitGeneration(info.Key); ok && first == key {
			all = append(all, Generation{n, info.Key})
		}
	}
	slices.SortFunc(all, func(a, b Generation) int { return cmp.Compare(b.N, a.N) })
	return all, nil
}
