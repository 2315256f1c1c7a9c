// Package spelling finds the known word that a misspelled word most likely means.
package spelling

import "strings"

// maxLength is the maximum length, in bytes, of a word that Nearest compares.
const maxLength = 64

// Nearest returns the known word that word most likely means, or "" if no word is similar.
// The comparison ignores case and the characters "-" and "_". A known word matches if
// word is its beginning (3 characters or more), or if few characters differ: one in
// three, and two at most. Of several matches, Nearest returns the closest and, among
// equals, the first.
func Nearest(word string, known []string) string {
	if len(word) > maxLength {
		return ""
	}
	plain := plainForm(word)
	nearest, least := "", min(2, len(plain)/3)+1
	for _, k := range known {
		if d := distance(plain, plainForm(k)); d < least {
			nearest, least = k, d
		}
	}
	if nearest != "" || len(plain) < 3 {
		return nearest
	}
	for _, k := range known {
		if strings.HasPrefix(plainForm(k), plain) {
			return k
		}
	}
	return ""
}

// Hint returns the sentence " Did you mean 'X'?" with the nearest known word, or "".
func Hint(word string, known []string) string {
	if near := Nearest(word, known); near != "" {
		return " Did you mean '" + near + "'?"
	}
	return ""
}

func plainForm(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s))
}

// distance returns the number of bytes that must be inserted, removed, or replaced, or
// exchanged with their neighbour, to change a into b.
func distance(a, b string) int {
	var before, last []int
	for i := 0; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b) && i == 0; j++ {
			row[j] = j
		}
		for j := 1; j <= len(b) && i > 0; j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(last[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
