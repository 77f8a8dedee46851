package cachekey_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weirhttp/weir/cachekey"
)

func Example() {
	spec, err := cachekey.New(cachekey.Options{
		Query: cachekey.Exclude(cachekey.CommonTrackingParams()...),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest(http.MethodGet, "https://example.com/page?page=2&utm_source=mail&a=1", nil)
	fmt.Println(spec.Text(&cachekey.Input{Request: r}))
	// Output:
	// scheme:5:https host:11:example.com method:3:GET path:5:/page q:1:a:1:1 q:4:page:1:2
}

func ExampleSpec_Explain() {
	spec, _ := cachekey.New(cachekey.Options{Query: cachekey.Include("page"), Headers: []string{"RSC"}})
	r := httptest.NewRequest(http.MethodGet, "http://example.com/list?page=2&cb=123", nil)
	for _, part := range spec.Explain(&cachekey.Input{Request: r}).Parts {
		fmt.Println(part.Kept, part.Kind, part.Name, part.Value, part.Reason)
	}
	// Output:
	// true scheme  http The scheme is always keyed.
	// true host  example.com The host is always keyed, in lower case and without the default port.
	// true method  GET The method class is always keyed; GET stands for HEAD too.
	// true path  /list The path is always keyed, as sent.
	// true q page 2 The rules key this parameter.
	// true h rsc  The rules key this header field.
	// false q cb 123 The rules don't list this parameter; the request that fills the cache goes without it.
}

func ExampleSpec_WithVary() {
	spec, _ := cachekey.New(cachekey.Options{
		Normalize: map[string]cachekey.Normalizer{"Accept-Encoding": cachekey.AcceptEncoding("br", "gzip")},
	})
	r := httptest.NewRequest(http.MethodGet, "https://example.com/", nil)
	r.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
	names := []string{"accept-encoding"}

	primary, _ := spec.Primary(&cachekey.Input{Request: r})
	before := spec.WithVary(primary, names, r.Header)
	r.Header.Set("Accept-Encoding", "br;q=1.0, gzip;q=0.8")
	fmt.Println(before == spec.WithVary(primary, names, r.Header))
	fmt.Println(string(spec.AppendSelecting(nil, names, r.Header)))
	// Output:
	// true
	// v:15:accept-encoding:2:br
}

func ExampleSpec_Reduce() {
	spec, _ := cachekey.New(cachekey.Options{
		Query: cachekey.Exclude("utm_source"), Cookies: []string{"lang"}, DropOtherCookies: true,
	})
	r := httptest.NewRequest(http.MethodGet, "/page?page=2&utm_source=mail", nil)
	r.Header.Set("Cookie", "_ga=1; lang=de")
	if reduced, ok := spec.Reduce(&cachekey.Input{Request: r}); ok {
		fill := reduced.Apply(r)
		fmt.Println(fill.URL, fill.Header.Get("Cookie"))
		for _, d := range reduced.Dropped {
			fmt.Println("dropped", d.Kind, d.Name)
		}
	}
	// Output:
	// /page?page=2 lang=de
	// dropped q utm_source
	// dropped c _ga
}

func ExampleParse() {
	parts, err := cachekey.Parse("path:5:/page q:7:a:1:1 q:1:2 h:3:rsc:-")
	for _, p := range parts {
		fmt.Printf("%s %q %q %s\n", p.Kind, p.Name, p.Value, p.State)
	}
	fmt.Println(err)
	_, err = cachekey.Parse("path:6:/page")
	fmt.Println(err)
	// Output:
	// path "" "/page" valued
	// q "a:1:1 q" "2" valued
	// h "rsc" "" absent
	// <nil>
	// cachekey: key text at byte 5: the length exceeds the text
}
