package trace

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/weirhttp/weir/internal/testnet"
)

func TestHeaderNamesAreCanonical(t *testing.T) {
	for _, name := range []string{HeaderCacheStatus, DefaultStatusHeader, HeaderCacheKey, HeaderCacheKeyHash,
		HeaderCacheReason, HeaderCacheRoute, HeaderCacheOrigin} {
		assert.Equal(t, http.CanonicalHeaderKey(name), name)
	}
}

func TestHeaderValue(t *testing.T) {
	long := strings.Repeat("a", MaxHeaderValue)
	tests := []struct{ in, want string }{
		{"", ""},
		{"host:11:example.com path:5:/page", "host:11:example.com path:5:/page"},
		{`quotes " and \ stay`, `quotes " and \ stay`},
		{"100%", "100%"},
		{"a\r\nSet-Cookie: b", "a%0D%0ASet-Cookie: b"},
		{"\x00\t\x7f", "%00%09%7F"},
		{"é", "%C3%A9"},
		{"\xff", "%FF"},
		{" a b ", "%20a b%20"},
		{" ", "%20"},
		{long, long},
		{long + "a", long[:MaxHeaderValue-3] + "..."},
		{long[:MaxHeaderValue-3] + "\n", long[:MaxHeaderValue-3] + "%0A"},
		{long[:MaxHeaderValue-2] + "\n", long[:MaxHeaderValue-3] + "..."},
	}
	for _, tt := range tests {
		got := HeaderValue(tt.in)
		assert.Equal(t, tt.want, got)
		assert.LessOrEqual(t, len(got), MaxHeaderValue)
	}
}

func TestHeaderValueDoesNotAllocateWhenSafe(t *testing.T) {
	s := strings.Repeat("x", 300)
	var sink string
	testnet.Allocs(t, 0, func() { sink = HeaderValue(s) })
	_ = sink
}

func FuzzHeaderValue(f *testing.F) {
	f.Add("a\r\nb")
	f.Add(strings.Repeat("é", 2000))
	f.Fuzz(func(t *testing.T, s string) {
		v := HeaderValue(s)
		if len(v) > MaxHeaderValue {
			t.Fatalf("%d bytes", len(v))
		}
		if strings.TrimSpace(v) != v {
			t.Fatalf("%q has space at an end", v)
		}
		for _, c := range []byte(v) {
			if c < ' ' || c > '~' {
				t.Fatalf("%q holds %#x", v, c)
			}
		}
		if (s == "") != (v == "") {
			t.Fatalf("%q became %q", s, v)
		}
		if HeaderValue(v) != v {
			t.Fatalf("%q isn't stable", v)
		}
	})
}

func TestAppendTrail(t *testing.T) {
	assert.Empty(t, new(Origin).AppendTrail(nil))
	o := Origin{
		Pool: "shop", Policy: "round-robin", Chosen: "c",
		Skipped: []Skip{{"a", "in maintenance"}},
		Attempts: []Attempt{
			{Origin: "b", Err: "connection refused"},
			{Origin: "d", Status: 502, Err: "body cut\r\n"},
			{Origin: "c", Status: 200},
		},
	}
	assert.Equal(t, `pool=shop policy=round-robin skipped="a: in maintenance" tried="b: connection refused" `+
		`tried="d: 502 body cut\r\n" tried="c: 200" chosen=c`, string(o.AppendTrail(nil)))
	assert.Equal(t, `x=1;chosen=c`, string((&Origin{Chosen: "c"}).AppendTrail([]byte("x=1;"))))
}
