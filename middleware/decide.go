package middleware

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/field"
	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/flight"
)

// errorMemo bounds how long a failing response keeps requests from waiting
// for one another: when the origin is back they should again.
const errorMemo = time.Second

// discardPatience is how long the end of a body is awaited that nobody wants:
// an origin's connection is worth keeping, but not for ever.
const discardPatience = 5 * time.Second

// makeHead builds the head from what the handler set. It changes nothing that
// others see yet.
func (f *fetch) makeHead(h http.Header) *head {
	h = canonicalNames(h)
	now := time.Now()
	hd := &head{status: f.status, receivedAt: now, length: declaredLength(h, f.status)}
	hd.decision = f.rules(h, f.status, now)
	d := &hd.decision
	if !d.Store {
		hd.notStored = reason(d.Reason.String())
	}
	if len(d.VaryNames) > 0 {
		hd.selecting = string(f.route.spec.AppendSelecting(nil, d.VaryNames, f.asked))
	}
	if d.Store || d.ShareOnce {
		hd.subject, hd.facts = f.subject(h)
	}
	hd.announced = announced(h["Trailer"])
	hd.full = store.EncodeBlock(h, "Content-Length", "Transfer-Encoding", "Trailer")
	switch {
	case !d.Store && !d.ShareOnce:
	case rfc9111.StoredUnchanged(h, &f.route.policy):
		hd.common = hd.full
	default:
		hd.common = store.EncodeBlock(rfc9111.StoredHeader(h, now, &f.route.policy), "Content-Length")
	}
	return hd
}

// canonicalNames returns h with the canonical names under which everything looks
// for fields: h itself, or a copy if a handler wrote some directly into the map in
// another case, or if they came with whitespace.
func canonicalNames(h http.Header) http.Header {
	odd := false
	for name := range h {
		odd = odd || realName(name) != name
	}
	if !odd {
		return h
	}
	c := make(http.Header, len(h))
	for name, values := range h {
		if realName(name) == name {
			c[name] = slices.Clip(values)
		}
	}
	for name, values := range h {
		if proper := realName(name); proper != name {
			c[proper] = append(c[proper], values...)
		}
	}
	return c
}

// realName is the canonical form of a field's name, without the whitespace before the
// colon that net/http's client takes for a part of it, and its server for a reason to
// leave the field out. A proxy must remove it (RFC 9112 §5.1). It stays where the field
// would have said how long the body is, which was found out without it: such a response
// isn't stored.
func realName(name string) string {
	if name == "" || name[len(name)-1] != ' ' {
		return http.CanonicalHeaderKey(name)
	}
	switch proper := http.CanonicalHeaderKey(strings.TrimRight(name, " ")); proper {
	case "Content-Length", "Transfer-Encoding":
		return name
	default:
		return proper
	}
}

// renameSpaced is canonicalNames for names with whitespace, in h itself.
func renameSpaced(h http.Header) {
	for name, values := range h {
		if name == "" || name[len(name)-1] != ' ' {
			continue
		}
		if proper := realName(name); proper != name {
			delete(h, name)
			h[proper] = append(slices.Clip(h[proper]), values...)
		}
	}
}

// setType adds the Content-Type that was found out from the body. It came too
// late for the rules, which trust only what the handler says.
func (hd *head) setType(value string) {
	for _, b := range [...]*store.Block{&hd.full, &hd.common} {
		if b == &hd.common && *b == "" {
			continue
		}
		h := b.Header()
		h["Content-Type"] = []string{value}
		*b = store.EncodeBlock(h)
	}
}

// declaredLength is the length of the body that the head declares, or -1.
// Nonsense counts as nothing, as in net/http.
func declaredLength(h http.Header, status int) int64 {
	if !rfc9110.BodyAllowed(status) {
		return 0
	}
	if v := h["Content-Length"]; len(v) > 0 {
		if n, err := strconv.ParseUint(field.TrimOWS(v[0]), 10, 63); err == nil {
			return int64(n)
		}
	}
	return -1
}

// rules asks the cache rules about a response to this fetch.
func (f *fetch) rules(h http.Header, status int, now time.Time) rfc9111.Decision {
	return rfc9111.Decide(&rfc9111.Exchange{
		Method: http.MethodGet, RequestHeader: f.judged, Status: status, Header: h,
		Path: f.url.EscapedPath(), RequestedAt: f.requestedAt, ReceivedAt: now,
	}, &f.route.policy)
}

// announced returns the names of the trailers that are to come.
func announced(lines []string) []string {
	var names []string
	for name := range field.Members(lines) {
		names = append(names, http.CanonicalHeaderKey(name))
	}
	return names
}

// decide publishes what came of the fetch, once. It returns false if it's too
// late: the deadline has decided.
func (f *fetch) decide() bool {
	if f.decided || f.late {
		return f.decided
	}
	f.dog.stop()
	if f.head == nil {
		h := f.header
		if f.sniffed != nil {
			h = f.sniffed
		}
		f.head = f.makeHead(h)
	}
	switch {
	case f.status == http.StatusNotModified && f.conditional:
		f.decided, f.discard = f.confirm(), true
	case f.status == http.StatusNotModified, f.status == http.StatusSwitchingProtocols:
		f.decided, f.discard = f.flight.Decide(flight.Released, &head{
			kind: failed, errStatus: http.StatusBadGateway, reason: whyUnvalidated}, nil), true
	case rfc9110.OriginFailed(f.status):
		f.fail()
		if stood, _ := f.standIn(unanswered(f.trail)); stood {
			f.decided, f.discard = true, true
			break
		}
		fallthrough
	default:
		f.decided = f.publish()
	}
	f.late = !f.decided && !f.mismatch
	if f.discard {
		f.dog.set(discardPatience, func() { f.cancel(errDiscarded) })
	}
	return f.decided
}

// publish shares the response, or gives it to the leader alone.
func (f *fetch) publish() bool {
	hd, d := f.head, &f.head.decision
	hd.fill = f.h.store.NewFill(hd.length)
	kept, _ := hd.fill.Kept()
	f.keeping = d.Store && kept
	if d.Store && !kept {
		f.tooLarge()
		hd.notStored = whyTooLarge
	}
	if !f.keeping {
		hd.fill.Forgo()
	}
	if f.supersedes(d) {
		f.h.supersede(f.route, f.stale)
	}
	if f.route.forwardsRng {
		f.outdateParts(hd.status, hd.full.Header())
	}
	verdict := flight.Released
	if d.ShareOnce {
		verdict = flight.Shared
		f.h.flights.Unremember(f.flight.Key(), f.flight.Lane())
	} else {
		f.remember(hd)
	}
	// Those attached read from the first byte, so it stays until each of them
	// has a reader.
	pin, _ := hd.fill.Reader(0)
	if !f.flight.Decide(verdict, hd, pin.Close) {
		pin.Close()
		return false
	}
	if f.keeping {
		f.flight.SetKeep(flight.KeepStorable)
	} else {
		f.flight.SetKeep(flight.KeepNot)
	}
	if verdict == flight.Shared {
		f.watch()
	}
	return true
}

// supersedes reports whether a response that isn't stored takes the place of the
// stale one all the same: the origin has said something newer, that it's for nobody
// else or gone. Other errors say nothing about the old one, and neither does what
// one client's request can provoke (a cookie, a refusal); and one that is still
// fresh was only passed over because this client wanted so, unless it was purged
// softly.
func (f *fetch) supersedes(d *rfc9111.Decision) bool {
	if f.stale == nil || d.Store || f.flight.Lane() != laneAnonymous ||
		f.stale.Life.TTL(d.Life.ReceivedAt) > 0 && f.h.verdict(f.stale) != purge.Stale {
		return false
	}
	switch f.status {
	case http.StatusNotFound, http.StatusGone:
		return true
	case http.StatusNotModified, http.StatusOK:
		return d.Reason == rfc9111.ResponseNoStore || d.Reason == rfc9111.ResponsePrivate
	}
	return false
}

// remember keeps later requests for the key from waiting for one another.
func (f *fetch) remember(hd *head) {
	d := f.h.cfg.UnshareableFor
	if d <= 0 || hd.decision.Reason == rfc9111.NoStoreRequested {
		return
	}
	if hd.status >= 500 {
		d = min(d, errorMemo)
	}
	f.h.flights.Remember(f.flight.Key(), f.flight.Lane(), hd.receivedAt.Add(d))
}

// checkKept notices when a body turned out not to be storable.
func (f *fetch) checkKept() {
	if !f.keeping {
		return
	}
	if kept, tooLarge := f.head.fill.Kept(); !kept {
		f.keeping = false
		if tooLarge {
			f.tooLarge()
		}
		f.fail() // as a refresh it comes to nothing
		f.flight.SetKeep(flight.KeepNot)
	}
}

// tooLarge remembers that ranges of this object had better come from the
// origin: fetching all of it each time would serve nobody.
func (f *fetch) tooLarge() {
	if d := f.h.cfg.UnshareableFor; d > 0 {
		f.h.flights.Remember(f.flight.Key(), laneRange, time.Now().Add(d))
	}
}

// stallChecks is how often a shared body is looked at within the stall timeout.
const stallChecks = 4

// watch fails a shared body to which the origin adds nothing for too long. A
// response for one client alone (an event stream) is that client's affair.
func (f *fetch) watch() {
	d := f.h.cfg.StallTimeout
	if d <= 0 {
		return
	}
	fill := f.head.fill
	last, _ := fill.Progress()
	idle := 0
	var check func()
	check = func() {
		now, _ := fill.Progress() // not the number of writes: one may take long
		if idle++; now != last || fill.Full() {
			idle = 0 // a writer that waits for readers isn't to blame
		}
		if idle == stallChecks {
			fill.Fail(errStalled)
			f.cancel(errStalled)
			return
		}
		last = now
		f.dog.set(d/stallChecks, check)
	}
	f.dog.set(d/stallChecks, check)
}

// variantKey is the key under which a response with these selecting fields is
// stored.
func (f *fetch) variantKey(names []string) store.Key {
	if len(names) == 0 {
		return f.key
	}
	return store.Key(f.route.spec.WithVary(cachekey.Key(f.key), names, f.asked))
}
