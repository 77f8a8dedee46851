package purge

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/weirhttp/weir/internal/field"
)

// Method is the request method that purges.
const Method = "PURGE"

// HeaderPurge is the request header field by which a PURGE request says how its URL
// is meant: a list of "exact" (path and query, the default), "url" (any query),
// "prefix" or "host", and "soft".
const HeaderPurge = "Weir-Purge"

// usualTagFields are refused if they aren't configured: a client that sends them
// means tags and not the URL.
var usualTagFields = [...]string{"Cache-Tag", "Surrogate-Key", "Xkey", "Edge-Cache-Tag"}

// ServePurge answers a request with the method PURGE, on the listener that also
// serves visitors. It purges the request's URL ([HeaderPurge] says how), or, if the
// request has one of [HandlerOptions].TagFields, these tags of the host's zone. It
// answers as the JSON interface does. The body isn't read. Requests with another
// method are answered with 405. Such requests never reach the origin.
func (h *Handler) ServePurge(w http.ResponseWriter, r *http.Request) {
	who, ok := h.authorised(w, r)
	if !ok {
		return
	}
	if r.Method != Method {
		w.Header().Set("Allow", Method)
		refuse(http.StatusMethodNotAllowed, "only PURGE is understood here").write(w)
		return
	}
	selectors, ans := h.readPurge(r)
	if ans.status == 0 {
		ans = h.purge(r, who, selectors)
	}
	h.audit.call(r, who, selectors, ans)
	ans.write(w)
}

// readPurge finds out what a PURGE request means.
func (h *Handler) readPurge(r *http.Request) ([]Selector, answer) {
	kind, soft, problem := purgeMode(r.Header[HeaderPurge])
	if problem != "" {
		return nil, refuse(http.StatusBadRequest, problem)
	}
	host := canonicalHost(r.Host)
	if !validHost(host) {
		return nil, refuse(http.StatusBadRequest, "the request has no valid host")
	}
	zone := ""
	if h.opt.ZoneOf != nil {
		var ok bool
		if zone, ok = h.opt.ZoneOf(host); !ok {
			return nil, refuse(http.StatusNotFound, "no zone has this host")
		}
	}
	tags, byTag, problem := h.purgeTags(r.Header)
	switch {
	case problem != "":
		return nil, refuse(http.StatusBadRequest, problem)
	case byTag && kind != 0:
		return nil, refuse(http.StatusBadRequest, "purge tags or a URL, not both")
	case byTag:
		selectors := make([]Selector, len(tags))
		for i, t := range tags {
			selectors[i] = Selector{Kind: Tag, Zone: zone, Tag: t, Soft: soft}
		}
		return selectors, answer{}
	}
	s := Selector{Kind: kind, Zone: zone, Host: host, Soft: soft}
	if kind == 0 {
		s.Kind = ExactURL
	}
	if s.Kind != Host {
		s.Path = r.URL.EscapedPath()
	}
	if s.Kind == ExactURL {
		s.Query = r.URL.RawQuery
	}
	return []Selector{s}, answer{}
}

// purgeMode reads HeaderPurge. The kind is 0 if it names none.
func purgeMode(lines []string) (kind Kind, soft bool, problem string) {
	for word := range field.Members(lines) {
		var k Kind
		switch field.Lower(word) {
		case "soft":
			soft = true
			continue
		case "exact":
			k = ExactURL
		case "url":
			k = URL
		case "prefix":
			k = Prefix
		case "host":
			k = Host
		default:
			return 0, false, HeaderPurge + ": unknown word " + clip(word) + ": use exact, url, prefix, host, soft"
		}
		if kind != 0 && kind != k {
			return 0, false, HeaderPurge + ": only one of exact, url, prefix, host"
		}
		kind = k
	}
	return kind, soft, ""
}

// purgeTags returns the tags that a PURGE request names.
func (h *Handler) purgeTags(hdr http.Header) (tags []string, found bool, problem string) {
	for _, f := range h.tags.fields {
		for _, line := range hdr[f.Name] {
			found = true
			for t := range splitTags(line, f.Separators) {
				tags = append(tags, t)
			}
		}
	}
	for _, name := range usualTagFields {
		if !found && len(hdr[name]) > 0 {
			return nil, false, "purging by " + strings.ToLower(name) + " isn't configured"
		}
	}
	switch {
	case found && len(tags) == 0:
		return nil, true, "the request names no tags"
	case len(tags) > MaxSelectors:
		return nil, true, fmt.Sprintf("%d tags, %d are allowed: split the call; nothing was purged", len(tags), MaxSelectors)
	}
	return tags, found, ""
}
