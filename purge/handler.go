package purge

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxBodyBytes bounds the body of a call to the JSON interface.
const MaxBodyBytes = 1 << 20

// HandlerOptions configure a [Handler].
type HandlerOptions struct {
	// List is what to purge on. Required.
	List *List

	// Authorise says who sends a request, or that it isn't allowed: 401 for an error
	// that wraps [ErrNoCredentials], 403 for others. The name is for the audit log
	// and Allow. It sees the request before its body is read. nil refuses every
	// request with 405. See [BearerToken] and [FromPrefixes].
	Authorise func(*http.Request) (who string, err error)
	// Allow, if set, may forbid what Authorise's name may not purge, such as other
	// zones than its own. Its error is told to the client. Selectors are canonical.
	// The state (GET) is of all zones and given only if Allow is nil, or allows
	// [Everything].
	Allow func(who string, s Selector) error

	// ZoneOf finds the zone of a host, in lower case with a port other than 80 and
	// 443. It is asked for the PURGE method and for all selectors with a host, which
	// then needn't name their zone and can't name another; false refuses the call.
	// nil means that hosts don't tell the zone, and zone "" for the PURGE method.
	ZoneOf func(host string) (zone string, ok bool)
	// KnownZone says whether a zone exists, so that a mistyped one is an error. nil
	// means that all do.
	KnownZone func(zone string) bool
	// Keyed, if set, brings host, path and query of a selector to the form in which
	// responses are keyed, such as without tracking parameters. It sees them as they
	// were written, which [Selector.Canonical] accepts, and the zone. It may be called
	// concurrently.
	Keyed func(*Selector)
	// TagFields are the request header fields by which the PURGE method purges tags.
	// Use those of the responses.
	TagFields []TagField

	// Logger gets the audit log: a line for each call with who, what and the result.
	// nil means slog.Default().
	Logger *slog.Logger
}

// Handler is the HTTP interface to a list: as an [http.Handler] the JSON
// interface, and [Handler.ServePurge] for the PURGE method. It is safe for
// concurrent use.
type Handler struct {
	opt   HandlerOptions
	tags  *TagReader
	audit auditor
}

// NewHandler checks the options and reports all problems at once, each a
// *[ConfigError].
func NewHandler(o HandlerOptions) (*Handler, error) {
	var bad []error
	if o.List == nil {
		bad = append(bad, &ConfigError{"List", nil, "a handler needs a list"})
	}
	tags, err := NewTagReader(o.TagFields...)
	if err = errors.Join(append(bad, err)...); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Handler{opt: o, tags: tags, audit: auditor{log: o.Logger}}, nil
}

// ServeHTTP is the JSON interface, whatever the path.
//
// POST purges. The body, application/json, of at most 1 MiB, has at most 1,000
// selectors: {"purge": [{"kind": "tag", "zone": "shop", "tag": "news"}, {"kind":
// "prefix", "host": "example.com", "path": "/blog/", "soft": true}]}. Fields are
// those of [Selector] in lower case; key is in hexadecimal; "url" may stand for
// host, path and query. Unknown fields are refused. Either all selectors are
// accepted or none, and then the answer names those that are wrong. 200 says that
// the purges are in effect, 202 that some are queued for their zone's budget.
// "durable" says that they are in the journal. 429 asks to come back: nothing was
// purged.
//
// GET returns the state ([Stats]).
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, ok := h.authorised(w, r)
	if !ok {
		return
	}
	switch r.Method {
	case http.MethodPost:
		selectors, ans := h.readCall(w, r)
		if ans.status == 0 {
			ans = h.purge(r, who, selectors)
		}
		h.audit.call(r, who, selectors, ans)
		ans.write(w)
	case http.MethodGet, http.MethodHead:
		if h.opt.Allow != nil && h.opt.Allow(who, Selector{Kind: Everything}) != nil {
			ans := refuse(http.StatusForbidden, "the state is of all zones")
			h.audit.call(r, who, nil, ans)
			ans.write(w)
			return
		}
		writeJSON(w, http.StatusOK, newState(h.opt.List.Stats()))
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		refuse(http.StatusMethodNotAllowed, "POST purges and GET shows the state").write(w)
	}
}

// authorised answers requests that aren't.
func (h *Handler) authorised(w http.ResponseWriter, r *http.Request) (who string, ok bool) {
	if h.opt.Authorise == nil {
		w.Header().Set("Allow", "")
		refuse(http.StatusMethodNotAllowed, "purging isn't configured").write(w)
		return "", false
	}
	who, err := h.opt.Authorise(r)
	if err == nil {
		return who, true
	}
	status := http.StatusForbidden
	if errors.Is(err, ErrNoCredentials) {
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Bearer realm="purge"`)
	}
	h.audit.refused(r, status, err)
	refuse(status, strings.ToLower(http.StatusText(status))).write(w)
	return "", false
}

// purge carries an authorised call out, all of it or nothing.
func (h *Handler) purge(r *http.Request, who string, selectors []Selector) answer {
	var wrong []SelectorError
	status := http.StatusBadRequest
	for i := range selectors {
		if e := h.complete(&selectors[i]); e != nil {
			e.Index = i
			wrong = append(wrong, *e)
		} else if h.opt.Allow != nil {
			if err := h.opt.Allow(who, selectors[i]); err != nil {
				status = http.StatusForbidden
				wrong = append(wrong, SelectorError{i, "zone", "not allowed: " + err.Error()})
			}
		}
	}
	if len(wrong) > 0 {
		return refuseSelectors(status, wrong)
	}
	res, err := h.opt.List.Submit(r.Context(), selectors...)
	var busy *BusyError
	switch {
	case errors.As(err, &busy):
		ans := refuse(http.StatusTooManyRequests, err.Error()+"; nothing was purged")
		ans.retry = busy.RetryAfter
		return ans
	case errors.Is(err, ErrNotDurable):
		return answer{status: http.StatusOK, result: res,
			problem: "in effect, but not in the journal: should the process end soon, purge again"}
	case err != nil:
		return refuse(http.StatusConflict, err.Error())
	case res.Queued > 0:
		return answer{status: http.StatusAccepted, result: res}
	}
	return answer{status: http.StatusOK, result: res}
}

// complete finds the zone of a selector and makes it canonical.
func (h *Handler) complete(s *Selector) *SelectorError {
	raw := *s
	if e := s.canonical(); e != nil {
		return e
	}
	if s.Host != "" && h.opt.ZoneOf != nil {
		switch zone, ok := h.opt.ZoneOf(s.Host); {
		case !ok:
			return &SelectorError{Field: "host", Reason: "no zone has this host"}
		case s.Zone != "" && s.Zone != zone:
			return &SelectorError{Field: "zone", Reason: "the host is in another zone: leave the zone out"}
		default:
			s.Zone = zone
		}
	}
	if s.Kind != Everything && h.opt.KnownZone != nil && !h.opt.KnownZone(s.Zone) {
		return &SelectorError{Field: "zone", Reason: "there is no such zone"}
	}
	if h.opt.Keyed == nil || s.Host == "" {
		return nil
	}
	// As it was written: responses are keyed before escapes are made equal.
	raw.Zone = s.Zone
	h.opt.Keyed(&raw)
	*s = raw
	return s.canonical()
}

// answer is what a call is answered with. A status of 0 is none yet.
type answer struct {
	status  int
	result  Result
	problem string
	wrong   []SelectorError
	retry   time.Duration
}

func refuse(status int, problem string) answer { return answer{status: status, problem: problem} }

// maxNamed is how many wrong selectors an answer names.
const maxNamed = 100

func refuseSelectors(status int, wrong []SelectorError) answer {
	return answer{status: status, wrong: wrong[:min(len(wrong), maxNamed)],
		problem: fmt.Sprintf("%d selectors are wrong; nothing was purged", len(wrong))}
}

func (a answer) write(w http.ResponseWriter) {
	if a.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(a.retry.Seconds()))))
	}
	type selectorError struct {
		Index  int    `json:"index"`
		Field  string `json:"field"`
		Reason string `json:"reason"`
	}
	var body struct {
		Applied   *int            `json:"applied,omitempty"`
		Queued    *int            `json:"queued,omitempty"`
		Durable   *bool           `json:"durable,omitempty"`
		Seq       string          `json:"seq,omitempty"`
		Error     string          `json:"error,omitempty"`
		Selectors []selectorError `json:"selectors,omitempty"`
	}
	body.Error = a.problem
	for _, e := range a.wrong {
		body.Selectors = append(body.Selectors, selectorError(e))
	}
	if a.status < 300 {
		body.Applied, body.Queued, body.Durable = &a.result.Applied, &a.result.Queued, &a.result.Durable
		if a.result.Seq > 0 {
			body.Seq = strconv.FormatUint(a.result.Seq, 10)
		}
	}
	writeJSON(w, a.status, body)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil { // our own types don't fail
		status, b = http.StatusInternalServerError, []byte("{}")
	}
	hdr := w.Header()
	hdr.Set("Content-Type", "application/json")
	hdr.Set("Cache-Control", "no-store")
	hdr.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}
