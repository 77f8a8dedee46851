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
	facts.Tags, facts.Groups = unite(facts.Tags, before.Tags), unite(facts.Groups, before.Groups)
	size := 0
	for _, tag := range slices.Concat(facts.Tags, facts.Groups) {
		size += len(tag)
	}
	if facts.AllTags = facts.AllTags || before.AllTags || !ok || size > purge.MaxTagTextBytes ||
		len(facts.Tags)+len(facts.Groups) > purge.MaxTags; facts.AllTags {
		facts.Tags, facts.Groups = nil, nil
	}
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

// subjectAfter is subject for a response that confirms old, whose tags count on
// unless h has some: old's own may be in a field that wasn't stored.
func (f *fetch) subjectAfter(old *store.Object, h http.Header) (*purge.Subject, []byte) {
	facts := f.purgeFacts(h)
	untagged := len(facts.Tags) == 0 && len(facts.Groups) == 0 && !facts.AllTags
	if old != nil && untagged {
		if before, _, ok := parseFacts(old.Facts); ok {
			facts.Tags, facts.Groups, facts.AllTags = before.Tags, before.Groups, before.AllTags
			untagged = false
		}
	}
	s := purge.NewSubject(facts)
	if old != nil && untagged {
		if before, ok := old.Attached.(*purge.Subject); ok {
			s.Inherit(before)
		}
	}
	if f.h.cfg.Store.Disk == nil {
		return s, nil
	}
	return s, appendFacts(nil, &facts, f.h.purges.list.Written())
}

// attached are a subject and its facts as an object has them.
func attached(s *purge.Subject, facts []byte) (store.Attachment, []byte) { return s, facts }
