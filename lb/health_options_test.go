package lb

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// fieldsOf are the fields that are refused.
func fieldsOf(t *testing.T, problems []error) (fields []string) {
	t.Helper()
	for _, err := range problems {
		var e *ConfigError
		assert.ErrorAs(t, err, &e)
		assert.NotEmpty(t, e.Reason)
		fields = append(fields, e.Field)
	}
	return fields
}

func TestHealthSettingsAreChecked(t *testing.T) {
	const s = time.Second
	type validator interface{ validate(string) []error }
	for _, tt := range []struct {
		name     string
		settings validator
		want     string // fields
	}{
		{"no checks", HealthCheck{}, ""},
		{"checks", HealthCheck{Path: "/healthz?deep=1"}, ""},
		{"all of them", HealthCheck{Path: "/", Method: "GET", Host: "a.test:8080", Port: 65535, Header: http.Header{"X-Forwarded-Proto": {"https"}},
			Interval: s, FastInterval: s, Timeout: 5 * s, Rise: 1, Fall: 1000, Status: []StatusRange{{First: 200}, {300, 399}}, Body: "ok", Pessimistic: true}, ""},
		{"an IPv6 host", HealthCheck{Path: "/", Host: "[2001:db8::1]:80"}, ""},
		{"forgotten path", HealthCheck{Fall: 2}, "Path"},
		{"forgotten path, pessimistic", HealthCheck{Pessimistic: true}, "Path"},
		{"no path at all", HealthCheck{Path: "healthz"}, "Path"},
		{"a URL", HealthCheck{Path: "http://a.test/"}, "Path"},
		{"a blank", HealthCheck{Path: "/a b"}, "Path"},
		{"a fragment", HealthCheck{Path: "/a#b"}, "Path"},
		{"a line break", HealthCheck{Path: "/a\r\nX: y"}, "Path"},
		{"bad escape", HealthCheck{Path: "/%zz"}, "Path"},
		{"POST", HealthCheck{Path: "/", Method: "POST"}, "Method"},
		{"HEAD with a text", HealthCheck{Path: "/", Method: "HEAD", Body: "x"}, "Method"},
		{"long text", HealthCheck{Path: "/", Body: strings.Repeat("x", 64<<10+1)}, "Body"},
		{"hosts", HealthCheck{Path: "/", Host: "a.test/b"}, "Host"},
		{"user in the host", HealthCheck{Path: "/", Host: "me@a.test"}, "Host"},
		{"only a port", HealthCheck{Path: "/", Host: ":80"}, "Host"},
		{"Host as a field", HealthCheck{Path: "/", Header: http.Header{"host": {"a"}}}, "Header"},
		{"fields", HealthCheck{Path: "/", Header: http.Header{"A b": {"a"}, "C": {"a\nb"}, "D": {"a\tb"}}}, "Header Header"},
		{"ranges", HealthCheck{Path: "/", Port: -1, Interval: 1, FastInterval: 6 * s, Timeout: -1, Rise: -1, Fall: 1001}, "Port Interval FastInterval Timeout Rise Fall"},
		{"fast above the default", HealthCheck{Path: "/", FastInterval: 6 * s}, "FastInterval"},
		{"statuses", HealthCheck{Path: "/", Status: []StatusRange{{First: 100}, {First: 600}, {300, 200}, {200, 600}, {200, 0}}}, "Status[0] Status[1] Status[2] Status[3]"},
		{"no status", HealthCheck{Path: "/", Status: []StatusRange{}}, "Status"},

		{"default ejection", Ejection{}, ""},
		{"no ejection", Ejection{Off: true}, ""},
		{"rules off", Ejection{Failures: -1, Rate: -1, Statuses: []int{}}, ""},
		{"ejection ranges", Ejection{Failures: 1 << 17, Rate: 101, Requests: -1, Window: -1, Duration: -1, MaxDuration: 25 * time.Hour, MaxPercent: 101, MaxRetryAfter: -1, Statuses: []int{500, 499, 600}},
			"Failures Rate Requests Window Duration MaxDuration MaxPercent MaxRetryAfter Statuses[1] Statuses[2]"},
		{"cap below the first", Ejection{Duration: time.Minute, MaxDuration: s}, "MaxDuration"},

		{"no breaker", Breaker{}, ""},
		{"breaker", Breaker{Failures: 10, Open: s, Probes: 64, Successes: 1}, ""},
		{"forgotten failures", Breaker{Open: s}, "Failures"},
		{"breaker ranges", Breaker{Failures: -1, Open: 2 * time.Hour, Probes: 65, Successes: -1}, "Failures Open Probes Successes"},

		{"no warm-up", WarmUp{}, ""},
		{"warm-up", WarmUp{Paths: make32("/x"), Timeout: 10 * time.Minute, Concurrency: 64}, ""},
		{"forgotten paths", WarmUp{Timeout: s}, "Paths"},
		{"too many paths", WarmUp{Paths: append(make32("/x"), "y")}, "Paths"},
		{"paths", WarmUp{Paths: []string{"/", "", "x"}, Header: http.Header{"Host": {"a"}}, Timeout: -1, Concurrency: 65}, "Paths[1] Paths[2] Header Timeout Concurrency"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, strings.Join(fieldsOf(t, tt.settings.validate("")), " "))
		})
	}
	problems := HealthCheck{Path: "x", Rise: -1}.validate("Pools[2].Health.")
	assert.Equal(t, []string{"Pools[2].Health.Path", "Pools[2].Health.Rise"}, fieldsOf(t, problems))
	assert.EqualError(t, problems[1], "lb: Pools[2].Health.Rise = -1: must be between 0 and 1000; leave it 0 for 2")
	assert.Empty(t, validateSlowStart(time.Hour, "SlowStart"))
	assert.Equal(t, []string{"S", "S"}, fieldsOf(t, append(validateSlowStart(-1, "S"), validateSlowStart(2*time.Hour, "S")...)))
}

func make32(path string) (paths []string) {
	for i := range 32 {
		paths = append(paths, fmt.Sprint(path, i))
	}
	return paths
}

func TestHealthDefaults(t *testing.T) {
	const s = time.Second
	assert.Equal(t, HealthCheck{
		Method: "GET", Interval: 5 * s, FastInterval: s, Timeout: 2 * s, Rise: 2, Fall: 3, Status: []StatusRange{{200, 399}},
	}, HealthCheck{}.withDefaults())
	assert.Equal(t, 100*time.Millisecond, HealthCheck{Interval: 100 * time.Millisecond}.withDefaults().FastInterval)
	assert.Equal(t, Ejection{
		Failures: 5, Rate: 50, Requests: 20, Window: 10 * s, Duration: 30 * s, MaxDuration: 300 * s, MaxPercent: 50, Statuses: []int{502, 503, 504},
	}, Ejection{}.withDefaults())
	assert.Equal(t, Breaker{Open: 10 * s, Probes: 1, Successes: 2}, Breaker{}.withDefaults())
	assert.False(t, Breaker{}.withDefaults().on())
	assert.Equal(t, WarmUp{Timeout: 30 * s, Concurrency: 4}, WarmUp{}.withDefaults())
}

// Whatever the caller does to its settings afterwards has no effect.
func TestHealthSettingsAreCopied(t *testing.T) {
	check := HealthCheck{Status: []StatusRange{{First: 200}}, Header: http.Header{"A": {"b"}}}
	warm := WarmUp{Paths: []string{"/"}, Header: http.Header{"A": {"b"}}}
	eject := Ejection{Statuses: []int{502}}
	c, w, e := check.withDefaults(), warm.withDefaults(), eject.withDefaults()
	check.Status[0].First, check.Header["A"][0], warm.Paths[0], warm.Header["A"][0], eject.Statuses[0] = 1, "x", "x", "x", 1
	assert.Equal(t, []any{200, "b", "/", "b", 502}, []any{c.Status[0].First, c.Header.Get("A"), w.Paths[0], w.Header.Get("A"), e.Statuses[0]})
}
