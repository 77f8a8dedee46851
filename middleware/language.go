package middleware

import (
	"net/http"
	"strings"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/store"
)

// variesByLanguage reports whether the selecting fields are Accept-Language
// alone.
func variesByLanguage(names []string) bool {
	return len(names) == 1 && names[0] == "accept-language"
}

// keepByLanguage stores a response a second time, as the answer to a request
// that accepts its language and no other (RFC 9110 §12.5.4: that's what such a
// request would have got).
func (f *fetch) keepByLanguage(o *store.Object) {
	if !f.route.languages || !variesByLanguage(o.VaryNames) {
		return
	}
	tag, ok := o.Header.Get("Content-Language")
	if !ok || strings.ContainsAny(tag, ", \t") {
		return
	}
	only := http.Header{"Accept-Language": {strings.ToLower(tag)}}
	selecting := string(f.route.spec.AppendSelecting(nil, o.VaryNames, only))
	if selecting == o.Selecting {
		return
	}
	alias := o.Freshened(o.Header.Header(), o.Life, o.RequestedAt)
	alias.Key = store.Key(f.route.spec.WithVary(cachekey.Key(o.Primary), o.VaryNames, only))
	alias.Selecting = selecting
	alias.Attached = o.Attached
	f.keep(alias)
}

// inPreferredLanguage returns the stored response in the language that x
// prefers to all others, if the route selects so.
func (x *exchange) inPreferredLanguage(primary store.Key, names []string) (o *store.Object, soft bool) {
	if !x.route.languages || !variesByLanguage(names) {
		return nil, false
	}
	tag, ok := cachekey.PreferredLanguage(x.r.Header["Accept-Language"])
	if !ok {
		return nil, false
	}
	only := http.Header{"Accept-Language": {tag}}
	o, _, soft = x.get(store.Key(x.route.spec.WithVary(cachekey.Key(primary), names, only)))
	if o == nil || o.Selecting != string(x.route.spec.AppendSelecting(nil, names, only)) {
		return nil, false
	}
	// An ordinary variant for this preference may be in any language.
	if said, _ := o.Header.Get("Content-Language"); !strings.EqualFold(said, tag) {
		return nil, false
	}
	return o, soft
}
