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

// Objects never change. What has to be stored anew under its old name, a pack
// without the segments that nothing names, or the root of a tree whose former
// one is about to be deleted, gets the key with ".1" behind it, then ".2".

// generation is an object that stands for the one that it is named after.
type Generation struct {
	N   int // 0 is the first, whose key has no number
	Key string
}

func GenerationKey(key string, n int) string {
	if n == 0 {
		return key
	}
	return key + "." + strconv.Itoa(n)
}

// splitGeneration takes a key apart; ok is false for a key of another form.
func SplitGeneration(key string) (first string, n int, ok bool) {
	first, number, later := strings.Cut(key, ".")
	if !later {
		return key, 0, true
	}
	n, err := strconv.Atoi(number)
	return first, n, err == nil && n > 0 && strconv.Itoa(n) == number
}

// laterGenerations lists those that stand for key, the newest first.
func LaterGenerations(ctx context.Context, s blob.Store, key string) ([]Generation, error) {
	var all []Generation
	for info, err := range s.List(ctx, key+".") {
		if err != nil {
			return nil, fmt.Errorf("looking for what stands for %s: %w", key, err)
		}
		if first, n, ok := SplitGeneration(info.Key); ok && first == key {
			all = append(all, Generation{n, info.Key})
		}
	}
	slices.SortFunc(all, func(a, b Generation) int { return cmp.Compare(b.N, a.N) })
	return all, nil
}
