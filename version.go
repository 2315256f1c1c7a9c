package stint

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// LatestVersion refers to the current version of an agent, artifact, or volume.
const LatestVersion = "latest"

// ParseVersion parses a reference to a version: "latest" or "" for the current
// one, v<N>, <N>, or an identifier for which isID returns true. For the current
// version, id is empty and number is 0.
func ParseVersion(reference string, isID func(string) bool) (id string, number int64, ok bool) {
	if reference == "" || reference == LatestVersion {
		return "", 0, true
	}
	if isID(reference) {
		return reference, 0, true
	}
	digits := strings.TrimPrefix(reference, "v")
	number, err := strconv.ParseInt(digits, 10, 64)
	return "", number, err == nil && number >= 1 && strconv.FormatInt(number, 10) == digits
}

// IsAgentVersion reports whether s is the identifier of a version of an agent.
func IsAgentVersion(s string) bool { return IsID(PrefixAgentVersion, s) }

// FormatVersionID returns the identifier of a version of an artifact or volume:
// v<number>_<suffix>.
func FormatVersionID(number int64, suffix string) string {
	return fmt.Sprintf("v%d_%s", number, suffix)
}

var fileSetVersionForm = regexp.MustCompile(`^v[1-9][0-9]{0,17}_[a-z2-7]{20}$`)

// IsFileSetVersion reports whether s has the form of the identifier of a version
// of an artifact or volume.
func IsFileSetVersion(s string) bool { return fileSetVersionForm.MatchString(s) }
