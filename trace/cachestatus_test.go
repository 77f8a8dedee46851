package trace

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

func TestAppendCacheStatus(t *testing.T) {
	tests := []struct {
		name string
		s    CacheStatus
		want string
	}{
		// RFC 9211 §2 and §3
		{"ExampleCache", CacheStatus{}, `ExampleCache`},
		{"ExampleCache", CacheStatus{Hit: true}, `ExampleCache;hit`},
		{"ExampleCache", CacheStatus{Hit: true, HasTTL: true, TTL: 376}, `ExampleCache;hit;ttl=376`},
		{"ExampleCache", CacheStatus{Hit: true, HasTTL: true, TTL: -412}, `ExampleCache;hit;ttl=-412`},
		{"ExampleCache", CacheStatus{Forward: ForwardURIMiss, Stored: true}, `ExampleCache;fwd=uri-miss;stored`},
		{"ExampleCache", CacheStatus{Forward: ForwardStale, ForwardStatus: 304}, `ExampleCache;fwd=stale;fwd-status=304`},
		{"ExampleCache", CacheStatus{Forward: ForwardURIMiss, Collapsed: true}, `ExampleCache;fwd=uri-miss;collapsed`},
		{"ExampleCache", CacheStatus{Forward: ForwardBypass}, `ExampleCache;fwd=bypass`},
		{"ExampleCache", CacheStatus{Forward: ForwardMethod}, `ExampleCache;fwd=method`},
		{"ExampleCache", CacheStatus{Forward: ForwardVaryMiss}, `ExampleCache;fwd=vary-miss`},
		{"ExampleCache", CacheStatus{Forward: ForwardMiss}, `ExampleCache;fwd=miss`},
		{"ExampleCache", CacheStatus{Forward: ForwardRequest}, `ExampleCache;fwd=request`},
		{"ExampleCache", CacheStatus{Forward: ForwardPartial}, `ExampleCache;fwd=partial`},
		// every parameter, in the RFC's order
		{"c", CacheStatus{Forward: ForwardStale, ForwardStatus: 200, HasTTL: true, TTL: 60, Stored: true, Collapsed: true, Key: "k", Detail: "d"},
			`c;fwd=stale;fwd-status=200;ttl=60;stored;collapsed;key="k";detail="d"`},
		// §2.1: hit and fwd exclude each other; the rest needs fwd
		{"c", CacheStatus{Hit: true, Forward: ForwardStale, ForwardStatus: 200, Stored: true, Collapsed: true}, `c;hit`},
		{"c", CacheStatus{ForwardStatus: 200, Stored: true, Collapsed: true}, `c`},
		{"c", CacheStatus{Forward: forwardCount, Stored: true}, `c`},
		// a TTL only where there is one
		{"c", CacheStatus{Hit: true, TTL: 5}, `c;hit`},
		{"c", CacheStatus{Hit: true, HasTTL: true}, `c;hit;ttl=0`},
		// RFC 9651 §3.3.1: at most fifteen digits
		{"c", CacheStatus{HasTTL: true, TTL: math.MaxInt64}, `c;ttl=999999999999999`},
		{"c", CacheStatus{HasTTL: true, TTL: math.MinInt64}, `c;ttl=-999999999999999`},
		// §3.3.4: what a token is
		{"*", CacheStatus{}, `*`},
		{"weir/1:a.b-c_d~e", CacheStatus{}, `weir/1:a.b-c_d~e`},
		{"cache.example.net", CacheStatus{}, `cache.example.net`},
		{"1weir", CacheStatus{}, `"1weir"`},
		{"-weir", CacheStatus{}, `"-weir"`},
		{"my cache", CacheStatus{Hit: true}, `"my cache";hit`},
		{`a"b\c`, CacheStatus{}, `"a\"b\\c"`},
		{"a;hit", CacheStatus{}, `"a;hit"`},
		{"a,b", CacheStatus{}, `"a,b"`},
		{" weir ", CacheStatus{}, `" weir "`},
		{"", CacheStatus{}, `""`},
		// a key and a detail can't leave their string
		{"c", CacheStatus{Key: `"; hit, x`}, `c;key="\"; hit, x"`},
		{"c", CacheStatus{Key: "a\r\nSet-Cookie: x"}, `c;key="a%0D%0ASet-Cookie: x"`},
		{"c", CacheStatus{Key: "/ä\x00\x7f"}, `c;key="/%C3%A4%00%7F"`},
		{"c", CacheStatus{Detail: `C:\`}, `c;detail="C:\\"`},
		{"caché", CacheStatus{}, `"cach%C3%A9"`},
	}
	for _, tt := range tests {
		got := string(AppendCacheStatus([]byte("before, "), tt.name, &tt.s))
		assert.Equal(t, "before, "+tt.want, got)
		_, err := parseCacheStatus(got)
		assert.NoError(t, err, got)
	}
}

// A key text is as long as the URL; proxies in front answer 502 when a
// response's head outgrows their buffer.
func TestAppendCacheStatusBoundsStrings(t *testing.T) {
	for _, unit := range []string{"a", `"`, "\x00", "ab\\"} {
		s := CacheStatus{Key: strings.Repeat(unit, 4*MaxHeaderValue)}
		got := string(AppendCacheStatus(nil, "c", &s))
		assert.LessOrEqual(t, len(got), len(`c;key=""`)+MaxHeaderValue)
		assert.Greater(t, len(got), MaxHeaderValue-3)
		assert.True(t, strings.HasSuffix(got, `..."`), got)
		_, err := parseCacheStatus(got)
		assert.NoError(t, err)
	}
}

func TestAppendCacheStatusDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 512)
	s := CacheStatus{Forward: ForwardVaryMiss, ForwardStatus: 200, HasTTL: true, TTL: 60, Stored: true,
		Collapsed: true, Key: `q:4:"page"` + "\r\n", Detail: "DYNAMIC"}
	testnet.Allocs(t, 0, func() {
		buf = AppendCacheStatus(buf[:0], "weir", &s)
		buf = AppendCacheStatus(buf, `my "cache"`, &s)
	})
}

func TestValidateName(t *testing.T) {
	for _, ok := range []string{"weir", "a", "my cache", `"`, "1", strings.Repeat("x", MaxNameLen)} {
		assert.NoError(t, ValidateName(ok), ok)
	}
	for bad, want := range map[string]string{
		"":                                "is empty",
		"caché":                           "offset 4",
		"a\nb":                            "offset 1",
		"\x7f":                            "offset 0",
		strings.Repeat("x", MaxNameLen+1): "129 bytes",
	} {
		assert.ErrorContains(t, ValidateName(bad), want)
	}
}

func TestRecordCacheStatus(t *testing.T) {
	const half = 500 * time.Millisecond
	tests := []struct {
		what string
		r    Record
		want string
	}{
		{"nothing decided", Record{}, `c`},
		{"fresh", Record{Cache: Cache{Status: Hit, TTL: 9*time.Second + half}}, `c;hit;ttl=9`},
		{"stale, by half a second", Record{Cache: Cache{Status: Stale, TTL: -half}}, `c;hit;ttl=-1`},
		{"stale, by a whole second", Record{Cache: Cache{Status: Stale, TTL: -time.Second}}, `c;hit;ttl=-1`},
		{"stale: the background refresh isn't this request's", Record{ForwardReason: ForwardStale, Cache: Cache{Status: Stale, Stored: true}}, `c;hit;ttl=0`},
		{"stale because admission refused", Record{Cache: Cache{Status: StaleError, TTL: -3 * time.Second}}, `c;hit;ttl=-3`},
		{"stale because the origin failed", Record{ForwardReason: ForwardStale, ForwardStatus: 503, Cache: Cache{Status: StaleError, TTL: -3 * time.Second}},
			`c;fwd=stale;fwd-status=503;ttl=-3`},
		{"miss, stored", Record{ForwardReason: ForwardURIMiss, ForwardStatus: 200, Cache: Cache{Status: Miss, TTL: time.Minute, Stored: true}},
			`c;fwd=uri-miss;fwd-status=200;ttl=60;stored`},
		{"miss, not stored", Record{ForwardReason: ForwardURIMiss, ForwardStatus: 500, Cache: Cache{Status: Miss, NotStored: "the status forbids it"}},
			`c;fwd=uri-miss;fwd-status=500`},
		{"revalidated", Record{ForwardReason: ForwardStale, ForwardStatus: 304, Cache: Cache{Status: Revalidated, TTL: time.Minute, Stored: true}},
			`c;fwd=stale;fwd-status=304;ttl=60;stored`},
		{"collapsed", Record{ForwardReason: ForwardMiss, Cache: Cache{Status: Collapsed, Collapsed: true}}, `c;fwd=miss;collapsed`},
		{"collapsed, for a known reason", Record{ForwardReason: ForwardVaryMiss, Cache: Cache{Status: Collapsed}}, `c;fwd=vary-miss;collapsed`},
		{"collapsed, reason unknown", Record{Cache: Cache{Status: Collapsed}}, `c;fwd=miss;collapsed`},
		{"bypass", Record{ForwardReason: ForwardBypass, Cache: Cache{Status: Bypass}}, `c;fwd=bypass`},
		{"shed", Record{Cache: Cache{Status: Shed}}, `c`},
	}
	for _, tt := range tests {
		s := tt.r.CacheStatus()
		assert.Equal(t, tt.want, string(AppendCacheStatus(nil, "c", &s)), tt.what)
	}
}

func FuzzCacheStatusRoundTrip(f *testing.F) {
	f.Add("weir", true, uint8(0), 0, int64(376), true, false, false, "key", "detail")
	f.Add("my cache", false, uint8(3), 200, int64(-5), true, true, true, "a\"\\\r\n\x00é", ";hit, x")
	f.Add("", false, uint8(200), -1, int64(math.MaxInt64), true, true, true, strings.Repeat("\"", 3000), "\xff")
	f.Fuzz(func(t *testing.T, name string, hit bool, fwd uint8, status int, ttl int64, hasTTL, stored, collapsed bool, key, detail string) {
		s := CacheStatus{hit, Forward(fwd), status, ttl, hasTTL, stored, collapsed, key, detail}
		text := string(AppendCacheStatus(nil, name, &s))
		members, err := parseCacheStatus(text)
		require.NoError(t, err, text)
		require.Len(t, members, 1, text)

		want := member{name: safe(name), CacheStatus: s}
		if s.Hit || s.Forward >= forwardCount {
			want.Forward = ForwardNone
		}
		if want.Forward == ForwardNone {
			want.ForwardStatus, want.Stored, want.Collapsed = 0, false, false
		}
		want.ForwardStatus = int(clampSF(int64(want.ForwardStatus)))
		want.TTL = clampSF(ttl)
		if !hasTTL {
			want.TTL = 0
		}
		want.Key, want.Detail = safe(key), safe(detail)
		got := members[0]
		if len(text) > MaxHeaderValue { // something may have been cut
			got.name, got.Key, got.Detail = uncut(got.name, want.name), uncut(got.Key, want.Key), uncut(got.Detail, want.Detail)
		}
		require.Equal(t, want, got, text)
		if ValidateName(name) == nil {
			require.Equal(t, name, got.name)
		}
	})
}

func clampSF(n int64) int64 {
	return min(max(n, -999_999_999_999_999), 999_999_999_999_999)
}

// safe is a plain statement of how strings are made safe.
func safe(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c >= ' ' && c <= '~' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// uncut returns want if got is want or a cut form of it.
func uncut(got, want string) string {
	if head, ok := strings.CutSuffix(got, "..."); ok && strings.HasPrefix(want, head) && len(want) > len(head)+3 {
		return want
	}
	return got
}

// member is a parsed member of Cache-Status.
type member struct {
	name string
	CacheStatus
}

// parseCacheStatus parses Cache-Status strictly: a list of items that are
// tokens or strings (RFC 9651 §4.2), with RFC 9211's parameters only, each at
// most once and with a value of its type.
func parseCacheStatus(s string) ([]member, error) {
	p := &parser{s}
	var out []member
	for {
		m, err := p.member()
		if err != nil {
			return nil, fmt.Errorf("%w at %q", err, p.s)
		}
		out = append(out, m)
		p.s = strings.TrimLeft(p.s, " \t")
		if p.s == "" {
			return out, nil
		}
		if !p.skip(",") {
			return nil, fmt.Errorf("no comma at %q", p.s)
		}
		p.s = strings.TrimLeft(p.s, " \t")
	}
}

type parser struct{ s string }

func (p *parser) skip(prefix string) bool {
	rest, ok := strings.CutPrefix(p.s, prefix)
	p.s = rest
	return ok
}

func (p *parser) member() (member, error) {
	var m member
	v, err := p.bareItem()
	if err != nil {
		return m, err
	}
	switch v := v.(type) {
	case token:
		m.name = string(v)
	case string:
		m.name = v
	default:
		return m, errors.New("name is neither token nor string")
	}
	seen := map[string]bool{}
	for p.skip(";") {
		p.s = strings.TrimLeft(p.s, " ")
		key := p.while(func(c byte) bool { return c >= 'a' && c <= 'z' || c == '-' })
		if key == "" || seen[key] {
			return m, fmt.Errorf("bad parameter %q", key)
		}
		seen[key] = true
		var v any = true
		if p.skip("=") {
			if v, err = p.bareItem(); err != nil {
				return m, err
			}
		}
		if err := m.set(key, v); err != nil {
			return m, err
		}
	}
	return m, nil
}

func (m *member) set(key string, v any) error {
	ok := false
	switch key {
	case "hit":
		m.Hit, ok = v.(bool)
	case "stored":
		m.Stored, ok = v.(bool)
	case "collapsed":
		m.Collapsed, ok = v.(bool)
	case "key":
		m.Key, ok = v.(string)
	case "detail":
		m.Detail, ok = v.(string)
	case "ttl":
		m.TTL, m.HasTTL = v.(int64)
		ok = m.HasTTL
	case "fwd-status":
		var n int64
		n, ok = v.(int64)
		m.ForwardStatus = int(n)
	case "fwd":
		for f := ForwardBypass; f < forwardCount; f++ {
			if v == token(f.String()) {
				m.Forward, ok = f, true
			}
		}
	}
	if !ok {
		return fmt.Errorf("parameter %s=%v", key, v)
	}
	return nil
}

type token string

func (p *parser) while(f func(byte) bool) string {
	i := 0
	for i < len(p.s) && f(p.s[i]) {
		i++
	}
	out := p.s[:i]
	p.s = p.s[i:]
	return out
}

// bareItem parses a string, an integer or a token.
func (p *parser) bareItem() (any, error) {
	if p.s == "" {
		return nil, errors.New("no item")
	}
	switch c := p.s[0]; {
	case c == '"':
		return p.quoted()
	case c == '-' || c >= '0' && c <= '9':
		digits := p.while(func(c byte) bool { return c == '-' || c >= '0' && c <= '9' })
		if len(strings.TrimPrefix(digits, "-")) > 15 {
			return nil, errors.New("integer too long")
		}
		return strconv.ParseInt(digits, 10, 64)
	case c == '*' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		const extra = "!#$%&'*+-.^_`|~:/"
		return token(p.while(func(c byte) bool {
			return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(extra, c) >= 0
		})), nil
	}
	return nil, errors.New("no item")
}

func (p *parser) quoted() (string, error) {
	var b strings.Builder
	for i := 1; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '\\':
			i++
			if i == len(p.s) || p.s[i] != '"' && p.s[i] != '\\' {
				return "", errors.New("bad escape")
			}
			b.WriteByte(p.s[i])
		case c == '"':
			p.s = p.s[i+1:]
			return b.String(), nil
		case c < ' ' || c > '~':
			return "", errors.New("bad character in string")
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("unterminated string")
}
