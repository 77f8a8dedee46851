package middleware

import (
	"net/http"
	"slices"

	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// subject is what purges select a response to this fetch by, and the same in the form
// in which a disk keeps it, if there is one.
func (f *fetch) subject(h http.Header) (*purge.Subject, []byte) {
	return f.subjectAfter(nil, h)
}

// purgeFacts are what purges select a response to f by.
func (f *fetch) purgeFacts(h http.Header) purge.Facts {
	facts := purge.Facts{
		Seq: f.seq, Zone: f.h.zone, Scheme: f.scheme, Host: f.host, Path: f.url.EscapedPath(),
		Query: f.route.spec.KeyedQuery(&http.Request{URL: &f.url}), Key: f.key,
	}
	f.h.purges.tags.Read(h, &facts)
	return facts
}

// subjectBeside is subject for a part that joins others: bytes that came with a tag
// are purged by it, whatever others came with. Purges from before the newest part
// were looked at already.
func (f *fetch) subjectBeside(h http.Header, had *parts) (*purge.Subject, []byte) {
	facts := f.purgeFacts(h)
	facts.Seq = max(facts.Seq, had.subject.Seq())
	s := purge.NewSubject(facts)
	s.Inherit(had.subject)
	if f.h.cfg.Store.Disk == nil {
		return s, nil
	}
	before, _, ok := parseFacts(had.facts)
	joinTags(&facts, &before, ok)
	return s, appendFacts(nil, &facts, f.h.purges.list.Written())
}

// unite returns the texts of a, and those of b that aren't among them. Neither is
// changed.
func unite(a, b []string) []string {
	if len(b) == 0 || slices.Equal(a, b) {
		return a
	}
	known := make(map[string]bool, len(a))
	for _, s := range a {
		known[s] = true
	}
	out := slices.Clip(a)
	for _, s := range b {
		if !known[s] {
			out = append(out, s)
		}
	}
	return out
}

// subjectAfter is subject for a response that confirms old. Where a field that carries
// tags or groups isn't in h, old's count on: they may have come in one that wasn't
// stored.
func (f *fetch) subjectAfter(old *store.Object, h http.Header) (*purge.Subject, []byte) {
	facts := f.purgeFacts(h)
	inherits := old != nil && f.h.purges.lacksTags(h)
	if f.h.cfg.Store.Disk != nil {
		if inherits {
			before, _, ok := parseFacts(old.Facts)
			joinTags(&facts, &before, ok)
		}
		return purge.NewSubject(facts), appendFacts(nil, &facts, f.h.purges.list.Written())
	}
	s := purge.NewSubject(facts)
	if inherits {
		switch before := old.Attached.(type) {
		case *purge.Subject:
			s.Inherit(before)
		case *searchLink:
			s.Inherit(before.subject)
		}
	}
	return s, nil
}

// lacksTags reports whether a field that may carry tags or groups isn't in h.
func (p *purger) lacksTags(h http.Header) bool {
	return len(h["Cache-Groups"]) == 0 || slices.ContainsFunc(p.tags.Fields(), func(name string) bool { return len(h[name]) == 0 })
}

// joinTags adds the tags and groups of before to facts; ok says that they are known.
func joinTags(facts, before *purge.Facts, ok bool) {
	facts.Tags, facts.Groups = unite(facts.Tags, before.Tags), unite(facts.Groups, before.Groups)
	size := 0
	for _, tag := range slices.Concat(facts.Tags, facts.Groups) {
		size += len(tag)
	}
	if facts.AllTags = facts.AllTags || before.AllTags || !ok || size > purge.MaxTagTextBytes ||
		len(facts.Tags)+len(facts.Groups) > purge.MaxTags; facts.AllTags {
		facts.Tags, facts.Groups = nil, nil
	}
}

// attached are a subject and its facts as an object has them.
func attached(s *purge.Subject, facts []byte) (store.Attachment, []byte) { return s, facts }
