package cachekey

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCanonicalHost(t *testing.T) {
	for _, c := range []struct{ scheme, host, want string }{
		{"http", "example.com", "example.com"},
		{"http", "EXAMPLE.com:80", "example.com"},
		{"https", "example.com:443", "example.com"},
		{"https", "example.com:80", "example.com:80"},
		{"http", "example.com:443", "example.com:443"},
		{"http", "example.com:8080", "example.com:8080"},
		{"http", "example.com:080", "example.com:080"},
		{"http", "example.com:", "example.com"},
		{"http", "example.com.", "example.com."},
		{"http", "example.com.:80", "example.com."},
		{"http", "[::1]", "[::1]"},
		{"http", "[::1]:80", "[::1]"},
		{"http", "[2001:DB8::A]:443", "[2001:db8::a]:443"},
		{"https", "[2001:DB8::A]:443", "[2001:db8::a]"},
		{"http", "[::80]", "[::80]"},
		{"http", "::80", "::80"},
		{"http", "a:b:80", "a:b:80"},
		{"http", "[::1]x:80", "[::1]x:80"},
		{"http", "", ""},
		{"http", ":80", ""},
		{"http", ":", ""},
		{"http", "münchen.test", "münchen.test"},
		{"http", "MÜNCHEN.test", "mÜnchen.test"},
	} {
		assert.Equal(t, c.want, CanonicalHost(c.scheme, c.host), "%s %s", c.scheme, c.host)
		text := string(appendHost(nil, c.scheme, c.host))
		assert.Equal(t, string(appendSingle(nil, KindHost, c.want)), text)
	}
}

func TestHostFoldingIsASCIIOnly(t *testing.T) {
	assert.True(t, equalFoldASCII("K.test", "k.TEST"))
	assert.False(t, equalFoldASCII("\u212a.test", "k.test"), "the Kelvin sign is not a k")
}

// The path in the key is EscapedPath, or "/" for none, found without its allocations.
func FuzzPathIsEscapedPath(f *testing.F) {
	for _, seed := range [][2]string{
		{"/a/b", ""}, {"/a b", ""}, {"/a/b", "/a%2Fb"}, {"/a/b", "/a%2"}, {"/é", "/%c3%A9"}, {"/é", "/é"},
		{"*", ""}, {"*", "%2A"}, {"", "/"}, {"/[x]!'()*", "/[x]!'()*"}, {"/a", "/%61"}, {"/a", "/a%"}, {"/\x00?#", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, path, raw string) {
		u := &url.URL{Path: path, RawPath: raw}
		escaped := u.EscapedPath()
		if escaped == "" {
			escaped = "/"
		}
		want := string(appendSingle(nil, KindPath, escaped))
		assert.Equal(t, want, string(appendPath(nil, u)))
	})
}
