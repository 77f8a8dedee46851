package middleware

import (
	"net/http"
	"time"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

// head is what a fetch knows once it has decided. It's immutable from then on,
// but for what is marked: that is set before the body's end.
type head struct {
	kind   headKind
	status int
	full   store.Block // the header as the wrapped handler set it: for the leader
	common store.Block // as it may be stored and shared: for all others
	fill   *store.Fill
	length int64 // declared length of the body, or -1

	receivedAt time.Time
	decision   rfc9111.Decision
	notStored  reason // why it isn't going to be stored; empty if it is
	selecting  string // canonical text of the selecting fields of the request
	announced  []string

	subject *purge.Subject // what purges select the response by
	facts   []byte         // the same for a disk
	object  *store.Object  // the stored response that is the answer instead
	cookies []string       // Set-Cookie of a 304, for the leader alone
	reason  reason

	errStatus int             // for failed: what to tell the client
	retry     time.Duration   // for failed: when to come again; 0 for unknown
	refusal   refusal         // for turnedAway: the same,
	class     admission.Class // for those who are no more important than this
	panicked  any             // for panicked: with what

	trailer   http.Header // set before the body's end
	discarded reason      // why it wasn't stored after all; set before the body's end
}

// headKind says what came of a fetch.
type headKind uint8

const (
	fetched    headKind = iota // a response; its body is in fill
	confirmed                  // a 304: object is the freshened stored response
	staleError                 // object stands in for a failed origin
	failed                     // no response
	panicked                   // the wrapped handler panicked before one
	turnedAway                 // the fetch may not begin
	supplied                   // somebody else stored a usable response meanwhile
)

// leaderStatus is the status word of the leader's answer.
func (hd *head) leaderStatus(stale bool) trace.Status {
	switch {
	case !hd.decision.Store && !hd.decision.ShareOnce:
		return trace.Dynamic
	case stale:
		return trace.Expired
	}
	return trace.Miss
}
