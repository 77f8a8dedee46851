package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirhttp/weir/cachekey"
)

type rules func() (*cachekey.Spec, error)

func (r rules) must(t *testing.T) *cachekey.Spec {
	t.Helper()
	spec, err := r()
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func input(url string, cookie string) *cachekey.Input {
	r := httptest.NewRequest(http.MethodGet, url, nil)
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	return &cachekey.Input{Request: r}
}

// Which requests share a response? This table is what a reviewer reads when a rule
// changes.
func TestWhichRequestsAreTheSame(t *testing.T) {
	cases := []struct {
		name             string
		rules            rules
		url, cookie      string
		otherURL, other2 string // URL and cookie of the other request
		same             bool
	}{
		{"a newsletter link is the page", pageRules,
			"https://shop.test/shoes", "", "https://shop.test/shoes?utm_source=mail&gclid=1", "", true},
		{"a second page isn't", pageRules,
			"https://shop.test/shoes", "", "https://shop.test/shoes?page=2", "", false},
		{"a session doesn't matter", pageRules,
			"https://shop.test/shoes", "", "https://shop.test/shoes", "session=1", true},
		{"the language does", pageRules,
			"https://shop.test/shoes", "lang=en", "https://shop.test/shoes", "lang=de", false},
		{"no language isn't an empty one", pageRules,
			"https://shop.test/shoes", "", "https://shop.test/shoes", "lang=", false},
		{"the order of filters doesn't matter", listRules,
			"https://shop.test/list?color=red&size=42", "", "https://shop.test/list?size=42&color=red", "", true},
		{"assets ignore the query", assetRules,
			"https://shop.test/app.1f3c.js?v=1", "", "https://shop.test/app.1f3c.js", "session=1", true},
		{"http isn't https", assetRules,
			"http://shop.test/app.1f3c.js", "", "https://shop.test/app.1f3c.js", "", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			spec := c.rules.must(t)
			a, b := spec.Explain(input(c.url, c.cookie)), spec.Explain(input(c.otherURL, c.other2))
			if (a.Key == b.Key) != c.same {
				t.Errorf("same = %v, want %v\n%s\n%s", !c.same, c.same, a, b)
			}
		})
	}
}

// What isn't cached, and why?
func TestUnknownFiltersBypassTheCache(t *testing.T) {
	spec := rules(listRules).must(t)
	for url, want := range map[string]cachekey.Problem{
		"https://shop.test/list?page=2":      cachekey.NoProblem,
		"https://shop.test/list?page=2&cb=1": cachekey.UnknownParameter,
		"https://shop.test/list?Page=2":      cachekey.UnknownParameter,
	} {
		if e := spec.Explain(input(url, "")); e.Problem != want {
			t.Errorf("%s: problem %q, want %q\n%s", url, e.Problem, want, e)
		}
	}
}

// What does the application get to see when a shared response is made?
func TestWhatTheApplicationIsSent(t *testing.T) {
	in := input("https://shop.test/shoes?page=2&fbclid=abc", "session=1; lang=de")
	in.Request.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
	reduced, ok := rules(pageRules).must(t).Reduce(in)
	if !ok {
		t.Fatal("nothing was left out")
	}
	sent := reduced.Apply(in.Request)
	got := [4]string{
		sent.URL.RawQuery, sent.Header.Get("Cookie"), sent.Header.Get("Accept-Encoding"), sent.Header.Get("Accept-Language"),
	}
	if want := [4]string{"page=2", "lang=de", "br", "en"}; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
}

func TestExplainsURLs(t *testing.T) {
	if err := run("page", []string{"https://shop.test/shoes?utm_source=mail"}); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		rules string
		urls  []string
	}{{"pages", []string{"https://shop.test/"}}, {"page", nil}, {"page", []string{":"}}} {
		if run(c.rules, c.urls) == nil {
			t.Errorf("%s %q: no error", c.rules, c.urls)
		}
	}
}
