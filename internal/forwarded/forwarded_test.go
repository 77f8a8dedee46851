package forwarded

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/weirhttp/weir/internal/testnet"
)

var trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}

const (
	peer   = "10.0.0.1"     // a trusted proxy
	client = "198.51.100.7" // what it saw
)

func client4(lines ...string) string {
	return Client(netip.MustParseAddr(peer), trusted, lines).String()
}

func TestClientOfXForwardedFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"nothing", nil, peer},
		{"empty line", []string{""}, peer},
		{"one", []string{client}, client},
		{"the leftmost is the client's own invention", []string{"203.0.113.9, " + client}, client},
		{"trusted hops are skipped", []string{"203.0.113.9, " + client + ", 10.1.1.1,10.2.2.2"}, client},
		{"several lines are one list", []string{"203.0.113.9", client, "10.1.1.1"}, client},
		{"the last line counts", []string{"203.0.113.9, 10.9.9.9", client}, client},
		{"only trusted ones", []string{"10.3.3.3, 10.4.4.4"}, "10.3.3.3"},
		{"empty members", []string{client + ", ,,\t, "}, client},
		{"white space", []string{" \t" + client + "\t "}, client},
		{"garbage", []string{"junk"}, peer},
		{"garbage ends the walk", []string{client + ", junk, 10.4.4.4"}, "10.4.4.4"},
		{"garbage in the line before", []string{"junk", "10.4.4.4"}, "10.4.4.4"},
		{"left of the client nothing is read", []string{"junk, \x00\xff, " + client}, client},
		{"unknown", []string{client + ", unknown"}, peer},
		{"obfuscated", []string{client + ", _hidden"}, peer},
		{"port", []string{client + ":4711"}, client},
		{"port too large", []string{client + ":65536"}, peer},
		{"port too long", []string{client + ":000080"}, peer},
		{"no port", []string{client + ":"}, peer},
		{"a name for a port", []string{client + ":_http"}, peer},
		{"IPv6", []string{"2001:db8::7"}, "2001:db8::7"},
		{"IPv6 in brackets", []string{"[2001:db8::7]"}, "2001:db8::7"},
		{"IPv6 with port", []string{"[2001:db8::7]:4711"}, "2001:db8::7"},
		{"IPv6 with zone", []string{"fe80::7%eth0"}, "fe80::7"},
		{"what is no zone", []string{"fe80::7%eth 0"}, peer},
		{"IPv6 with zone in brackets", []string{"[fe80::7%25eth0]:80"}, "fe80::7"},
		{"IPv4 as IPv6", []string{"::ffff:198.51.100.7"}, client},
		{"IPv4 as IPv6 in brackets", []string{"[::ffff:198.51.100.7]:80"}, client},
		{"a trusted one written as IPv6", []string{client + ", ::ffff:10.1.1.1"}, client},
		{"a trusted one with a zone", []string{client + ", fd00::1%x"}, client},
		{"IPv4 in brackets", []string{"[198.51.100.7]"}, peer},
		{"bracket not closed", []string{"[2001:db8::7"}, peer},
		{"text after the bracket", []string{"[2001:db8::7]x"}, peer},
		{"quotes", []string{`"198.51.100.7"`}, peer},
		{"leading zeros", []string{"198.051.100.7"}, peer},
		{"decimal number", []string{"3325256711"}, peer},
		{"prefix", []string{client + "/32"}, peer},
		{"two in one", []string{client + " 10.1.1.1"}, peer},
		{"wide digits", []string{"１98.51.100.7"}, peer},
		{"too long", []string{client + "," + strings.Repeat(" ", 600) + client}, peer},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, client4(c.lines...)) })
	}
}

func TestClientIgnoresWhoIsNotTrusted(t *testing.T) {
	for _, p := range []string{"192.0.2.1", "2001:db8::1", "11.0.0.1", "::1"} {
		at := netip.MustParseAddr(p)
		assert.Equal(t, at, Client(at, trusted, []string{"10.0.0.1, 198.51.100.7"}))
		assert.Equal(t, at, ClientOf(at, trusted, []string{"for=198.51.100.7"}))
		assert.Equal(t, at, Client(at, nil, []string{"10.0.0.1, 198.51.100.7"}))
	}
	assert.Equal(t, netip.Addr{}, Client(netip.Addr{}, trusted, []string{client}))
	assert.Equal(t, client, Client(netip.MustParseAddr("::ffff:10.0.0.1%eth0"), trusted, []string{client}).String())
}

func TestClientOfForwarded(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"nothing", nil, peer},
		{"one", []string{"for=198.51.100.7"}, client},
		{"any case and order", []string{"proto=https;FOR=198.51.100.7;By=10.0.0.1"}, client},
		{"quoted", []string{`for="198.51.100.7:4711"`}, client},
		{"quoted pairs", []string{`for="198.51\.100.7"`}, client},
		{"IPv6", []string{`for="[2001:db8::7]:4711"`}, "2001:db8::7"},
		{"IPv6 that should be quoted", []string{`for=[2001:db8::7]`}, "2001:db8::7"},
		{"IPv6 needs brackets", []string{`for="2001:db8::7"`}, peer},
		{"a name for a port", []string{`for="198.51.100.7:_http"`}, client},
		{"leftmost is the client's own", []string{"for=203.0.113.9, for=198.51.100.7, for=10.1.1.1"}, client},
		{"several lines", []string{"for=203.0.113.9", "for=198.51.100.7", "for=10.1.1.1"}, client},
		{"no for", []string{"for=198.51.100.7, proto=https"}, peer},
		{"twice", []string{"for=198.51.100.7;for=203.0.113.9"}, peer},
		{"unknown", []string{"for=198.51.100.7, for=unknown"}, peer},
		{"obfuscated", []string{"for=_x"}, peer},
		{"no value", []string{"for"}, peer},
		{"empty value", []string{"for="}, peer},
		{"white space around =", []string{"for = 198.51.100.7"}, peer},
		{"a quote the client left open", []string{`for="x, for=198.51.100.7;by="10.0.0.1"`}, client},
		{"a quote the client left open before quoted ones", []string{`for="x, for="198.51.100.7"`}, client},
		{"a backslash the client left", []string{`for=x\, for="198.51.100.7"`}, client},
		{"a quoted comma", []string{`for=198.51.100.7;x="a, for=203.0.113.9"`}, client},
		{"a quoted quote", []string{`for=198.51.100.7;x="a\", for=203.0.113.9"`}, client},
		{"a quoted backslash", []string{`for=203.0.113.9;x="a\\", for=198.51.100.7`}, client},
		{"a quote left open at the end", []string{`for=198.51.100.7, for="10.1.1.1`}, peer},
		{"too long", []string{"for=198.51.100.7;x=" + strings.Repeat("x", 600)}, peer},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, ClientOf(netip.MustParseAddr(peer), trusted, c.lines).String())
		})
	}
}

func TestParseElement(t *testing.T) {
	e, ok := Parse(`for=192.0.2.1; By="[2001:db8::1]:80";host="a\"b";proto=https;ext=1;;`)
	assert.True(t, ok)
	assert.Equal(t, Element{For: "192.0.2.1", By: "[2001:db8::1]:80", Host: `a"b`, Proto: "https"}, e)
	for _, bad := range []string{"x", "=x", "for=a b", `for="a`, `host=a;host=a`, "for=a\x00", `for="a"b`, "fo r=a", "for=@"} {
		e, ok := Parse(bad)
		assert.False(t, ok, bad)
		assert.Equal(t, Element{}, e)
	}
	_, ok = Parse("")
	assert.True(t, ok)
}

// A million bytes of header cost about as much as a short one.
func TestCostAndAllocationsAreBounded(t *testing.T) {
	at := netip.MustParseAddr(peer)
	for name, line := range map[string]string{
		"trusted":  strings.Repeat("10.1.1.1,", 120_000),
		"commas":   strings.Repeat(",", 1<<20),
		"one":      strings.Repeat("1", 1<<20),
		"quotes":   strings.Repeat(`"`, 1<<20),
		"pairs":    `for="` + strings.Repeat(`\`, 1<<20),
		"brackets": strings.Repeat("[", 1<<20),
		"blanks":   strings.Repeat(" ", 1<<20),
	} {
		looked := 0
		count := func(cut func(string) (string, string, bool)) func(string) (string, string, bool) {
			return func(s string) (string, string, bool) { looked++; return cut(s) }
		}
		read := func(e string) (netip.Addr, bool) { return Node(e, false) }
		walk(at, trusted, []string{line}, count(cutLastComma), read)
		walk(at, trusted, []string{line}, count(cutLastElement), read)
		assert.LessOrEqual(t, looked, 2*MaxHops, name)
		testnet.Allocs(t, 2, func() {
			Client(at, trusted, []string{line})
			ClientOf(at, trusted, []string{line})
		}, name)
	}
}

func TestClientAllocatesNothing(t *testing.T) {
	at, lines := netip.MustParseAddr(peer), []string{"junk, 2001:db8::7, 10.1.1.1", "fd00::1"}
	other := []string{`for="[2001:db8::7]:80", for=10.1.1.1`}
	testnet.Allocs(t, 0, func() { Client(at, trusted, lines) })
	testnet.Allocs(t, 0, func() { ClientOf(at, trusted, other) })
}

// The answer is the peer or an address that a line has; it's the peer if that isn't
// trusted; and whatever a client puts in front of what its proxy appends changes
// nothing.
func FuzzClient(f *testing.F) {
	for _, s := range []string{"198.51.100.7, 10.1.1.1", "[2001:db8::7]:80", `for="[::1]:80";proto=http, for=10.0.0.9`,
		`for="x, for=1.2.3.4`, "fe80::1%eth0", "::% 000", "::ffff:1.2.3.4", `x\"`, ",,,", "unknown", `for="`} {
		f.Add(s, "")
		f.Add("10.2.2.2", s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		at, stranger := netip.MustParseAddr(peer), netip.MustParseAddr("192.0.2.1")
		for i, find := range []func(netip.Addr, []netip.Prefix, []string) netip.Addr{Client, ClientOf} {
			lines := []string{a, b}
			assert.Equal(t, stranger, find(stranger, trusted, lines))
			got := find(at, trusted, lines)
			if got != at && !appears(got, a+","+b) {
				t.Errorf("%v isn't in %q", got, lines)
			}
			proxy := []string{client, "for=" + client}[i]
			for _, sep := range []string{",", ", "} {
				assert.Equal(t, client, find(at, trusted, []string{b, a + sep + proxy}).String())
			}
			assert.Equal(t, client, find(at, trusted, []string{b, a, proxy}).String())
		}
	})
}

// appears reports whether some text between separators is the address.
func appears(addr netip.Addr, text string) bool {
	text = strings.ReplaceAll(text, `\`, "")
	cut := func(r rune) bool { return strings.ContainsRune(` ,;="[]`+"\t", r) }
	for _, s := range strings.FieldsFunc(text, cut) {
		for _, s := range []string{s, s[:max(0, strings.LastIndexByte(s, ':'))]} {
			if a, err := netip.ParseAddr(s); err == nil && Plain(a) == addr {
				return true
			}
		}
	}
	return false
}
