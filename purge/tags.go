package purge

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/weirhttp/weir/internal/field"
	"github.com/weirhttp/weir/internal/rfc9111"
)

// The bounds of a response's tags and groups together. A response beyond them
// keeps none: it is purged by every purge of any tag or group of its zone.
const (
	MaxTags         = 1000
	MaxTagTextBytes = 16 << 10
)

// Separators say how a field's value is divided into tags.
type Separators uint8

// The separators.
const (
	ByName          Separators = iota // Surrogate-Key: spaces, xkey: both, others: commas
	Commas                            // white space around them is dropped
	Spaces                            // spaces and tabs
	CommasAndSpaces                   // both
)

// TagField is a response header field that carries tags.
type TagField struct {
	Name       string // such as "Cache-Tag", in any case
	Separators Separators
}

// TagReader reads the tags of responses. It is immutable.
type TagReader struct{ fields []TagField }

// NewTagReader checks the fields, which may be none, and reports all problems at
// once, each a *[ConfigError].
func NewTagReader(fields ...TagField) (*TagReader, error) {
	t := &TagReader{}
	var bad []error
	for i, f := range fields {
		at := fmt.Sprintf("TagFields[%d]", i)
		if !field.IsToken(f.Name) {
			bad = append(bad, &ConfigError{at, f.Name, "not a header field name"})
			continue
		}
		if f.Separators > CommasAndSpaces {
			bad = append(bad, &ConfigError{at, f.Separators, "unknown separators"})
		}
		f.Name = http.CanonicalHeaderKey(f.Name)
		if f.Name == "Cache-Groups" || f.Name == "Cache-Group-Invalidation" {
			bad = append(bad, &ConfigError{at, f.Name, "its groups belong to an origin and are read anyway"})
		}
		if f.Separators == ByName {
			switch f.Name {
			case "Surrogate-Key":
				f.Separators = Spaces
			case "Xkey":
				f.Separators = CommasAndSpaces
			default:
				f.Separators = Commas
			}
		}
		t.fields = append(t.fields, f)
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	return t, nil
}

// Fields returns the names of the fields, for those who strip them from what
// clients see.
func (t *TagReader) Fields() []string {
	names := make([]string, len(t.fields))
	for i, f := range t.fields {
		names[i] = f.Name
	}
	return names
}

// Read fills in f.Tags, f.Groups and f.AllTags from a response's header. A
// response without tags costs a look-up for each field. A malformed Cache-Groups
// counts as absent (RFC 9651 §4.2).
func (t *TagReader) Read(h http.Header, f *Facts) {
	f.Tags, f.Groups, f.AllTags = nil, nil, false
	left := MaxTagTextBytes
	for _, tf := range t.fields {
		for _, line := range h[tf.Name] {
			if left -= len(line); left < 0 || !f.addTags(line, tf.Separators) {
				f.Tags, f.AllTags = nil, true
				return
			}
		}
	}
	lines := h["Cache-Groups"]
	if len(lines) == 0 {
		return
	}
	for _, line := range lines {
		left -= len(line)
	}
	if left >= 0 {
		f.Groups = rfc9111.Groups(h)
	}
	long := slices.ContainsFunc(f.Groups, func(g string) bool { return len(g) > MaxTagBytes })
	if left < 0 || long || len(f.Tags)+len(f.Groups) > MaxTags {
		f.Tags, f.Groups, f.AllTags = nil, nil, true
	}
}

// addTags adds the tags of a line and reports false if that are too many, or one
// is such as no selector can be.
func (f *Facts) addTags(line string, by Separators) bool {
	for tag := range splitTags(line, by) {
		if len(f.Tags) == MaxTags || len(tag) > MaxTagBytes || hasControl(tag) {
			return false
		}
		f.Tags = append(f.Tags, tag)
	}
	return true
}

// splitTags yields the tags of a line, without empty ones.
func splitTags(line string, by Separators) func(yield func(string) bool) {
	at := ","
	switch by {
	case Spaces:
		at = " \t"
	case CommasAndSpaces:
		at = ", \t"
	}
	return func(yield func(string) bool) {
		for line != "" {
			tag := line
			if i := strings.IndexAny(line, at); i >= 0 {
				tag, line = line[:i], line[i+1:]
			} else {
				line = ""
			}
			if tag = field.TrimOWS(tag); tag != "" && !yield(tag) {
				return
			}
		}
	}
}
