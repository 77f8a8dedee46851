package lb

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// The defaults of [HealthCheck].
const (
	DefaultCheckInterval     = 5 * time.Second
	DefaultCheckFastInterval = time.Second
	DefaultCheckTimeout      = 2 * time.Second
	DefaultCheckRise         = 2
	DefaultCheckFall         = 3
)

const (
	minCheckInterval = 10 * time.Millisecond
	maxCheckInterval = 24 * time.Hour
	maxCheckTimeout  = 5 * time.Minute
	maxCheckCount    = 1000
	checkBodyBytes   = 64 << 10 // of a body are searched, or read away
)

// HealthCheck configures active health checks: each origin is asked for Path at
// intervals, on its own and never twice at once. The zero value checks nothing,
// and origins count as healthy.
//
// Before its first check an origin counts as healthy, or a restart would be an
// outage; set Pessimistic to keep it out instead. The first result decides at
// once; after that Fall failures in a row make it unhealthy and Rise passes in a
// row healthy again, so one odd result changes nothing.
type HealthCheck struct {
	// Path is what is asked for, with or without query, beginning with "/". ""
	// means no checks.
	Path string
	// Method is "GET" or "HEAD". "" means "GET".
	Method string
	// Host is the Host field that is sent, and for TLS what Origin.HostHeader
	// would be. "" means the pool's first host name, or the origin's address.
	Host string
	// Port is asked instead of the origin's own. 0 means the origin's.
	Port int
	// Header is sent too, such as X-Forwarded-Proto. It can't hold Host.
	Header http.Header

	// Interval is from the start of one check to that of the next, give or take a
	// tenth, so that checks don't fall into step; from 10 ms to a day. 0 means
	// [DefaultCheckInterval].
	Interval time.Duration
	// FastInterval is used instead after a result that contradicts the state, so
	// that a change is certain soon; up to Interval. 0 means
	// [DefaultCheckFastInterval], or Interval if that is shorter.
	FastInterval time.Duration
	// Timeout is how long the answer may take, its body included; up to 5 min. 0
	// means [DefaultCheckTimeout].
	Timeout time.Duration
	// Rise and Fall are how many results in a row make an unhealthy origin healthy
	// and the other way round, up to 1,000. 0 means [DefaultCheckRise] and
	// [DefaultCheckFall].
	Rise, Fall int

	// Status are the statuses that pass. Nil means 200 to 399. Redirects aren't
	// followed.
	Status []StatusRange
	// Body is what the answer's body must contain, within its first 64 KiB and as
	// it is sent, so not compressed. "" means anything.
	Body string
	// Pessimistic lets origins count as unhealthy until their first check passed.
	Pessimistic bool
}

// StatusRange is a range of HTTP statuses, both ends included.
type StatusRange struct {
	First int
	Last  int // 0 means First: a single status
}

func (r StatusRange) holds(status int) bool {
	return r.First <= status && status <= max(r.First, r.Last)
}

func (h HealthCheck) on() bool { return h.Path != "" }

func (h HealthCheck) withDefaults() HealthCheck {
	setDefault(&h.Method, http.MethodGet)
	setDefault(&h.Interval, DefaultCheckInterval)
	setDefault(&h.FastInterval, min(DefaultCheckFastInterval, h.Interval))
	setDefault(&h.Timeout, DefaultCheckTimeout)
	setDefault(&h.Rise, DefaultCheckRise)
	setDefault(&h.Fall, DefaultCheckFall)
	if h.Status == nil {
		h.Status = []StatusRange{{200, 399}}
	}
	h.Status = slices.Clone(h.Status)
	h.Header = h.Header.Clone()
	return h
}

// validate reports all that is wrong; place is such as "Pools[0].Health.".
func (h HealthCheck) validate(place string) []error {
	c := problems{place: place}
	if h.Path == "" {
		if h.isSet() {
			c.bad("Path", h.Path, `must be set, since the other settings have no effect without it; "/" asks for the home page`)
		}
	} else {
		c.target("Path", h.Path)
	}
	if h.Method != "" && h.Method != http.MethodGet && h.Method != http.MethodHead {
		c.bad("Method", h.Method, `must be "GET" or "HEAD"; leave it empty for "GET"`)
	}
	if h.Method == http.MethodHead && h.Body != "" {
		c.bad("Method", h.Method, `must be "GET" if Body is set, since an answer to "HEAD" has none`)
	}
	if len(h.Body) > checkBodyBytes {
		c.bad("Body", len(h.Body), "bytes are more than the 64 KiB that are searched; look for a shorter text")
	}
	c.hostField("Host", h.Host)
	c.header("Header", h.Header)
	c.between("Port", h.Port, 0, 65535, "leave it 0 for the origin's own")
	if h.Interval != 0 {
		c.within("Interval", h.Interval, minCheckInterval, maxCheckInterval, "leave it 0 for 5 s")
	}
	if h.FastInterval != 0 {
		high := h.Interval
		setDefault(&high, DefaultCheckInterval)
		c.within("FastInterval", h.FastInterval, minCheckInterval, max(high, minCheckInterval), "leave it 0 for a second")
	}
	c.within("Timeout", h.Timeout, 0, maxCheckTimeout, "leave it 0 for 2 s")
	c.between("Rise", h.Rise, 0, maxCheckCount, "leave it 0 for 2")
	c.between("Fall", h.Fall, 0, maxCheckCount, "leave it 0 for 3")
	for i, s := range h.Status {
		if s.First < 200 || s.First > 599 || s.Last != 0 && (s.Last < s.First || s.Last > 599) {
			c.bad(fmt.Sprintf("Status[%d]", i), s, "must be from 200 to 599, the lower one first; leave Status nil for 200 to 399")
		}
	}
	if h.Status != nil && len(h.Status) == 0 {
		c.bad("Status", h.Status, "lets no answer pass; leave it nil for 200 to 399")
	}
	return c.list
}

// isSet reports whether anything is set.
func (h HealthCheck) isSet() bool {
	return h.Method != "" || h.Host != "" || h.Port != 0 || len(h.Header) > 0 || h.Interval != 0 ||
		h.FastInterval != 0 || h.Timeout != 0 || h.Rise != 0 || h.Fall != 0 || h.Status != nil ||
		h.Body != "" || h.Pessimistic
}

// request returns the check's request.
func (h HealthCheck) request(ctx context.Context, m member, hosts []string) (*http.Request, error) {
	host := h.Host
	if host == "" {
		host = m.host
	}
	if host == "" && len(hosts) > 0 {
		host = hosts[0]
	}
	return ownRequest(ctx, h.Method, onPort(m.base, h.Port), h.Path, host, h.Header)
}

// judge says what is wrong with a check's answer, or "". It reads the body as far
// as needed and closes it.
func (h HealthCheck) judge(resp *http.Response) string {
	defer resp.Body.Close()
	if !slices.ContainsFunc(h.Status, func(r StatusRange) bool { return r.holds(resp.StatusCode) }) {
		// Read away, so that the connection can be used again.
		io.Copy(io.Discard, io.LimitReader(resp.Body, checkBodyBytes))
		return fmt.Sprintf("status %d", resp.StatusCode)
	}
	if h.Body == "" {
		if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, checkBodyBytes)); err != nil {
			return "body: " + clipped(err.Error())
		}
		return ""
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, checkBodyBytes))
	switch {
	case bytes.Contains(body, []byte(h.Body)):
		return ""
	case err != nil:
		return "body: " + clipped(err.Error())
	}
	return "the expected text isn't in the body"
}

// clipped bounds a text that the other side can lengthen.
func clipped(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
