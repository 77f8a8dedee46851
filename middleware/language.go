package middleware

import (
	"net/http"
	"strings"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// variesByLanguage reports whether the selecting fields are Accept-Language
// alone.
func variesByLanguage(names []string) bool {
	return len(names) == 1 && names[0] == "accept-language"
}

// keepByLanguage stores a response a second time, as the answer to a request that
// accepts its language and no other, if that is the language that the request itself
// prefers, or that one without its region (RFC 9110 §12.5.4, RFC 4647 §3.4: that's what
// such a request would have got). An origin that fell back to another language,
// whatever it was asked for, has said nothing about those who ask for that one. What
// is fresh there already stays.
func (f *fetch) keepByLanguage(o *store.Object) {
	if !f.route.languages || !variesByLanguage(o.VaryNames) {
		return
	}
	tag, ok := o.Header.Get("Content-Language")
	preferred, has := cachekey.PreferredLanguage(f.asked["Accept-Language"])
	tag = strings.ToLower(tag)
	if !ok || !has || preferred != tag && !strings.HasPrefix(preferred, tag+"-") {
		return
	}
	only := http.Header{"Accept-Language": {tag}}
	selecting := string(f.route.spec.AppendSelecting(nil, o.VaryNames, only))
	if selecting == o.Selecting {
		return
	}
	key := store.Key(f.route.spec.WithVary(cachekey.Key(o.Primary), o.VaryNames, only))
	there, _ := f.h.store.Get(key)
	if there != nil && there.Life.TTL(o.Life.ReceivedAt) > 0 && f.h.verdict(there) == purge.Valid {
		return
	}
	alias := o.Freshened(o.Header.Header(), o.Life, o.RequestedAt)
	alias.Key = key
	alias.Selecting = selecting
	alias.Attached = o.Attached
	f.keep(alias)
}

// supersede removes a response that is known to be out of date, under all its names.
func (m *Middleware) supersede(r *route, o *store.Object) {
	if r.languages && variesByLanguage(o.VaryNames) {
		m.store.Delete(o.Primary) // it may be stored a second time, by its language
	} else {
		m.store.DeleteObject(o)
	}
	m.noteUndeleted()
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
