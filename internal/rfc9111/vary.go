package rfc9111

import (
	"slices"
	"strings"

	"github.com/weirhttp/weir/internal/field"
)

// MaxVaryNames is how many selecting fields a stored response may have.
const MaxVaryNames = 32

// VaryNames returns the fields that select a response (RFC 9110 §12.5.5): in
// lower case, sorted, each once. star reports that it is good for one request
// only: some member is "*", or can't be read, or there are more than
// [MaxVaryNames].
func VaryNames(lines []string) (names []string, star bool) {
	names, star, tooMany := varyNames(lines)
	return names, star || tooMany
}

func varyNames(lines []string) (names []string, star, tooMany bool) {
	for m := range field.Members(lines) {
		switch {
		case strings.Contains(m, "*"):
			// "*" is allowed in a name, but nobody has one; more likely this
			// is a "*" that got a blemish.
			return nil, true, false
		case !field.IsToken(m):
			tooMany = true
		case !tooMany:
			names = append(names, field.Lower(m))
		}
		tooMany = tooMany || len(names) > 8*MaxVaryNames
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if tooMany || len(names) > MaxVaryNames {
		return nil, false, true
	}
	return names, false, false
}

// tellsClient reports whether a field, in lower case, says where the client is.
// Proxies write such fields, those behind the cache too: what the cache sees of
// them isn't what the origin chose by.
func tellsClient(name string) bool {
	switch name {
	case "forwarded", "via", "x-forwarded-for", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip",
		"cf-connecting-ip", "fastly-client-ip", "x-original-forwarded-for", "x-envoy-external-address":
		return true
	}
	return false
}
