package cachekey

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// The time should grow with the length of the text only: about 65 ns for each 64
// bytes of it, which is the hash.
func BenchmarkPrimary(b *testing.B) {
	tracked := mustSpec(b, Options{Query: Exclude(CommonTrackingParams()...)})
	included := mustSpec(b, Options{Query: Include("page", "sort", "color", "size", "q")})
	cases := []struct {
		name, target string
		spec         *Spec
	}{
		{"no query", "https://www.example.com/products/blue-shoes", Default()},
		{"five parameters sorted", "https://www.example.com/products?color=red&page=2&q=shoes&size=xl&sort=price", Default()},
		{"five parameters unsorted", "https://www.example.com/products?sort=price&size=xl&q=shoes&page=2&color=red", Default()},
		{"five parameters two excluded", "https://www.example.com/products?page=2&q=shoes&utm_source=mail&gclid=abcdef&size=xl", tracked},
		{"five parameters included", "https://www.example.com/products?color=red&page=2&q=shoes&size=xl&sort=price", included},
		{"escaped path", "https://www.example.com/caf%C3%A9/cr%C3%A8me%2Fbr%C3%BBl%C3%A9e", Default()},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			in := &Input{Request: served(c.target)}
			b.ReportAllocs()
			for b.Loop() {
				c.spec.Primary(in)
			}
		})
	}
}

// Without the hash: the cost of building the text.
func BenchmarkAppendText(b *testing.B) {
	in := &Input{Request: served("https://www.example.com/products?color=red&page=2&q=shoes&size=xl&sort=price")}
	s := Default()
	buf := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		s.AppendText(buf, in)
	}
}

// Linear in the number of parameters, apart from sorting.
func BenchmarkPrimaryManyParameters(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			in := &Input{Request: httptest.NewRequest(http.MethodGet, "/?"+manyParameters(n), nil)}
			s := Default()
			b.ReportAllocs()
			for b.Loop() {
				s.Primary(in)
			}
		})
	}
}

func BenchmarkWithVary(b *testing.B) {
	s := mustSpec(b, Options{Normalize: map[string]Normalizer{"Accept-Encoding": AcceptEncoding()}})
	h := http.Header{"Accept-Encoding": {"gzip, deflate, br, zstd"}, "Rsc": {"1"}}
	names := []string{"accept-encoding", "next-router-prefetch", "rsc"}
	b.ReportAllocs()
	for b.Loop() {
		s.WithVary(Key{1}, names, h)
	}
}

func BenchmarkNormalize(b *testing.B) {
	cases := []struct {
		name, value string
		n           Normalizer
	}{
		{"encoding", "gzip, deflate, br, zstd", AcceptEncoding()},
		{"language", "de-CH,de;q=0.9,en-US;q=0.8,en;q=0.7", AcceptLanguage("en", "de", "fr")},
		{"device", genericAgent(Desktop), DeviceClass()},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			lines := []string{c.value}
			b.ReportAllocs()
			for b.Loop() {
				c.n.Value(lines)
			}
		})
	}
}

// Nothing to leave out is the common case and must cost next to nothing.
func BenchmarkReduceUnchanged(b *testing.B) {
	s := mustSpec(b, Options{Query: Exclude(CommonTrackingParams()...)})
	in := &Input{Request: httptest.NewRequest(http.MethodGet, "https://www.example.com/p?page=2&q=shoes", nil)}
	b.ReportAllocs()
	for b.Loop() {
		s.Reduce(in)
	}
}

// served returns a GET request as a server reads it from an origin-form target.
func served(address string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, address, nil)
	r.URL.Scheme, r.URL.Host = "", ""
	r.RequestURI = r.URL.RequestURI()
	return r
}

// manyParameters returns n parameters with different names in no order.
func manyParameters(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString("p" + strconv.Itoa(i*7919%n) + "=" + strconv.Itoa(i))
	}
	return b.String()
}

func mustSpec(tb testing.TB, o Options) *Spec {
	tb.Helper()
	s, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
