package middleware

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/weirhttp/weir/purge"
)

// zones are the names of the handlers' spaces in the cache. Safe for concurrent use.
type zones struct {
	mu      sync.Mutex
	names   map[string]bool
	unnamed int
}

// number returns the name of a handler that has none: "" for the first, then "2",
// "3", .... These depend on an order that the next release may change, so that with
// a disk there may be only one handler without a name, and no other.
func (z *zones) number(disk bool) string {
	z.mu.Lock()
	defer z.mu.Unlock()
	if disk && len(z.names) > 0 {
		panic(needNames)
	}
	z.unnamed++
	name := ""
	if z.unnamed > 1 {
		name = strconv.Itoa(z.unnamed)
	}
	z.add(name)
	return name
}

// needNames tells what to do.
const needNames = "middleware: several handlers share a cache with a disk: give each a name with WrapZone, " +
	"or a restart could give one the other's responses"

// claim takes a name.
func (z *zones) claim(name string, disk bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if disk && z.unnamed > 0 {
		panic(needNames)
	}
	if len(name) > purge.MaxZoneBytes {
		panic(fmt.Sprintf("middleware: WrapZone: the name has %d bytes, at most %d are allowed", len(name), purge.MaxZoneBytes))
	}
	z.add(name)
}

func (z *zones) add(name string) {
	if z.names[name] {
		panic(fmt.Sprintf("middleware: the zone %q has a handler already", name))
	}
	if z.names == nil {
		z.names = make(map[string]bool)
	}
	z.names[name] = true
}

// known reports whether a handler has the name.
func (z *zones) known(name string) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.names[name]
}

// maxZonesNamed is how many zones an error names.
const maxZonesNamed = 20

// unknown returns an error if a selector is about a zone that no handler has: it would
// purge nothing.
func (z *zones) unknown(selectors []purge.Selector) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	var bad []error
	reason := ""
	for i, s := range selectors {
		if s.Kind == purge.Everything || z.names[s.Zone] || len(bad) == purge.MaxSelectors {
			continue
		}
		if reason == "" {
			reason = z.instead()
		}
		bad = append(bad, &purge.SelectorError{Index: i, Field: "zone", Reason: reason})
	}
	return errors.Join(bad...)
}

// instead tells what zones there are. The lock is held.
func (z *zones) instead() string {
	if len(z.names) == 0 {
		return "there is no such zone: no handler has been made yet"
	}
	names := slices.Sorted(maps.Keys(z.names))
	more := ""
	if len(names) > maxZonesNamed {
		names, more = names[:maxZonesNamed], ", ..."
	}
	return fmt.Sprintf("there is no such zone: use one of %s", strings.Join(quoted(names), ", ")) + more
}

func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strconv.QuoteToASCII(name)
	}
	return out
}
