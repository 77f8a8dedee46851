package rfc9111

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestDecide(t *testing.T) {
	life := func(l Life) Life { l.ReceivedAt = t0; return l }
	hour := Life{Lifetime: time.Hour, Source: FromMaxAge}
	for _, tc := range []struct {
		name string
		ex   *Exchange
		p    Policy
		want Decision
	}{
		{"§3: max-age", get(200, header("Cache-Control", "max-age=3600")), Policy{}, Decision{Store: true, ShareOnce: true, Life: life(hour)}},
		{"§3: selecting fields", get(200, header("Cache-Control", "max-age=3600", "Vary", "Foo,bar", "Vary", "FOO")), Policy{},
			Decision{Store: true, ShareOnce: true, Life: life(hour), VaryNames: []string{"bar", "foo"}}},
		{"§5.2.2.5: no-store", get(200, header("Cache-Control", "max-age=3600, no-store")), Policy{}, Decision{Reason: ResponseNoStore, Life: life(hour)}},
		{"§5.2.2.7: private", get(200, header("Cache-Control", "private, max-age=3600")), Policy{}, Decision{Reason: ResponsePrivate, Life: life(hour)}},
		{"§5.2.1.5: request no-store", withRequest(get(200, header("Cache-Control", "max-age=3600")), "Cache-Control", "no-store"), Policy{}, Decision{Reason: NoStoreRequested, Life: life(hour)}},
		{"§5.2.1.5: ignored", withRequest(get(200, header("Cache-Control", "max-age=3600")), "Cache-Control", "no-store"), Policy{IgnoreRequest: RequestForcesWork},
			Decision{Store: true, ShareOnce: true, Life: life(hour)}},
		{"§7.3: Set-Cookie", get(200, header("Cache-Control", "max-age=3600", "Set-Cookie", "a=b")), Policy{}, Decision{Reason: SetsCookie, Life: life(hour)}},
		{"§7.3: Set-Cookie, allowed", get(200, header("Cache-Control", "max-age=3600", "Set-Cookie", "a=b")), Policy{StoreSetCookie: true}, Decision{Store: true, ShareOnce: true, Life: life(hour)}},
		{"§4.1: Vary *", get(200, header("Cache-Control", "max-age=3600", "Vary", "Foo, *")), Policy{}, Decision{Reason: VariesOnEverything, Life: life(hour)}},
		{"§4.1: Vary that can't be read", get(200, header("Cache-Control", "max-age=3600", "Vary", "Foo bar")), Policy{}, Decision{Reason: VariesOnTooMuch, Life: life(hour)}},
		{"§4.2: stale on arrival", get(200, header("Cache-Control", "max-age=0")), Policy{}, Decision{Reason: StaleOnArrival, Life: life(Life{Source: FromMaxAge})}},
		{"§4.2: shared once", get(200, header("Cache-Control", "max-age=0")), Policy{ShareOnce: true}, Decision{Reason: StaleOnArrival, ShareOnce: true, Life: life(Life{Source: FromMaxAge})}},
		{"§5.2.2.2: must-revalidate isn't", get(200, header("Cache-Control", "max-age=0, must-revalidate")), Policy{ShareOnce: true},
			Decision{Reason: StaleOnArrival, Life: life(Life{Source: FromMaxAge, MustRevalidate: true, AuthReusable: true})}},
		{"§4.3: stale, with a validator", get(200, header("Cache-Control", "max-age=0", "ETag", `"a"`)), Policy{}, Decision{Store: true, Life: life(Life{Source: FromMaxAge})}},
		{"RFC 5861 §3: stale, with a window", get(200, header("Cache-Control", "max-age=0, stale-while-revalidate=9")), Policy{},
			Decision{Store: true, ShareOnce: true, Life: life(Life{Source: FromMaxAge, StaleWhileRevalidate: 9 * time.Second})}},
		{"RFC 5861 §4: the route's window", get(200, header("Cache-Control", "max-age=0")), Policy{StaleIfError: time.Minute},
			Decision{Store: true, Life: life(Life{Source: FromMaxAge, StaleIfError: time.Minute})}},
		{"RFC 5861 §4: the origin's window goes first", get(200, header("Cache-Control", "max-age=3600, stale-if-error=0, stale-while-revalidate=5")), Policy{StaleIfError: time.Minute, StaleWhileRevalidate: time.Minute},
			Decision{Store: true, ShareOnce: true, Life: life(Life{Lifetime: time.Hour, Source: FromMaxAge, StaleWhileRevalidate: 5 * time.Second})}},
		{"§5.2.2.4: no-cache, no validator", get(200, header("Cache-Control", "no-cache, max-age=3600")), Policy{ShareOnce: true}, Decision{Reason: MustAlwaysValidate, Life: life(Life{Lifetime: time.Hour, Source: FromMaxAge, NoCache: true})}},
		{"§5.2.2.4: no-cache, validator", get(200, header("Cache-Control", "no-cache", "ETag", `"a"`)), Policy{}, Decision{Store: true, Life: life(Life{NoCache: true})}},
		{"§3: no-cache isn't enough for any status", get(403, header("Cache-Control", "no-cache", "ETag", `"a"`)), Policy{}, Decision{Reason: NoLifetime, Life: life(Life{NoCache: true})}},
		{"§3: nothing said", get(200, header("ETag", `"a"`)), Policy{}, Decision{Reason: NoLifetime, Life: life(Life{})}},
		{"§3: nothing said, shared once", get(200, header()), Policy{ShareOnce: true}, Decision{Reason: NoLifetime, ShareOnce: true, Life: life(Life{})}},
		{"§3: HEAD", &Exchange{Method: "HEAD", Status: 200, Header: header("Cache-Control", "max-age=3600"), ReceivedAt: t0, RequestedAt: t0}, Policy{}, Decision{Reason: HeadNotStored, Life: life(hour)}},
		{"§3: POST", &Exchange{Method: "POST", Status: 200, Header: header("Cache-Control", "max-age=3600"), ReceivedAt: t0, RequestedAt: t0}, Policy{}, Decision{Reason: MethodNotStored, Life: life(hour)}},
		{"§3: interim", get(103, header("Cache-Control", "max-age=3600")), Policy{}, Decision{Reason: InterimResponse, Life: life(hour)}},
		{"§3.3: partial", get(206, header("Cache-Control", "max-age=3600")), Policy{}, Decision{Reason: PartialContent, Life: life(hour)}},
		{"§3: 304", get(304, header("Cache-Control", "max-age=3600")), Policy{}, Decision{Reason: NotModifiedResponse, Life: life(hour)}},
		{"§5.2.2.3: must-understand, known", get(200, header("Cache-Control", "max-age=3600, no-store, must-understand")), Policy{}, Decision{Store: true, ShareOnce: true, Life: life(hour)}},
		{"§5.2.2.3: must-understand, unknown", get(599, header("Cache-Control", "max-age=3600, no-store, must-understand")), Policy{ErrorMax: -1}, Decision{Reason: StatusNotUnderstood, Life: life(hour)}},
		{"RFC 9213: targeted", get(200, header("Cache-Control", "no-store", "CDN-Cache-Control", "max-age=3600", "Expires", "@-5")), Policy{},
			Decision{Store: true, ShareOnce: true, Life: life(Life{Lifetime: time.Hour, Source: FromTargeted, SharedExplicit: true})}},
		{"a path that lies about its type", get(200, header("Cache-Control", "max-age=3600", "Content-Type", "text/html")), Policy{ByExtension: true}, Decision{Reason: ExtensionMismatch, Life: life(hour)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, Decide(tc.ex, &tc.p))
		})
	}
}

func TestCredentials(t *testing.T) {
	byRFC := Policy{AuthorizationByRFC: true}
	static := []string{"Cache-Control", "max-age=60", "Content-Type", "image/png"}
	for _, tc := range []struct {
		name     string
		request  []string
		response []string
		path     string
		p        Policy
		want     Reason
	}{
		{"§3.5: not by default", []string{"Authorization", "x"}, []string{"Cache-Control", "public, max-age=60"}, "/", Policy{}, HasAuthorization},
		{"§3.5: explicit freshness isn't enough", []string{"Authorization", "x"}, []string{"Cache-Control", "max-age=60"}, "/", byRFC, AuthorizationNotShared},
		{"§3.5: public", []string{"Authorization", "x"}, []string{"Cache-Control", "public, max-age=60"}, "/", byRFC, Storable},
		{"§3.5: must-revalidate", []string{"Authorization", "x"}, []string{"Cache-Control", "must-revalidate, max-age=60"}, "/", byRFC, Storable},
		{"§3.5: s-maxage", []string{"Authorization", "x"}, []string{"Cache-Control", "s-maxage=60"}, "/", byRFC, Storable},
		{"§3.5: s-maxage that can't be read", []string{"Authorization", "x"}, []string{"Cache-Control", "s-maxage=x", "ETag", `"a"`}, "/", byRFC, AuthorizationNotShared},
		{"§3.5: present though empty", []string{"Authorization", ""}, []string{"Cache-Control", "max-age=60"}, "/", byRFC, AuthorizationNotShared},
		{"cookie: freshness isn't enough", []string{"Cookie", "a=b"}, []string{"Cache-Control", "max-age=60"}, "/", Policy{}, HasCookie},
		{"cookie: must-revalidate isn't enough", []string{"Cookie", "a=b"}, []string{"Cache-Control", "max-age=60, must-revalidate"}, "/", Policy{}, HasCookie},
		{"cookie: public", []string{"Cookie", "a=b"}, []string{"Cache-Control", "public, max-age=60"}, "/", Policy{}, Storable},
		{"cookie: s-maxage", []string{"Cookie", "a=b"}, []string{"Cache-Control", "s-maxage=60"}, "/", Policy{}, Storable},
		{"cookie: targeted", []string{"Cookie", "a=b"}, []string{"CDN-Cache-Control", "max-age=60"}, "/", Policy{}, Storable},
		{"cookie: static without its extension", []string{"Cookie", "a=b"}, static, "/a", Policy{}, HasCookie},
		{"cookie: a document", []string{"Cookie", "a=b"}, []string{"Cache-Control", "max-age=60", "Content-Type", "application/pdf"}, "/a.pdf", Policy{}, HasCookie},
		{"cookie: static and fitting", []string{"Cookie", "a=b"}, static, "/a.png", Policy{}, Storable},
		{"cookie: static but not what the path says", []string{"Cookie", "a=b"}, static, "/a.css", Policy{}, HasCookie},
		{"cookie: static without explicit freshness", []string{"Cookie", "a=b"}, []string{"Last-Modified", "@-90000", "Content-Type", "image/png"}, "/a.png", Policy{}, HasCookie},
		{"cookie: the route's lifetime isn't the origin's", []string{"Cookie", "a=b"}, []string{"Content-Type", "image/png"}, "/a.png", Policy{TTLByStatus: map[int]time.Duration{200: time.Hour}}, HasCookie},
		{"cookie: asserted", []string{"Cookie", "a=b"}, []string{"Cache-Control", "max-age=60"}, "/", Policy{IgnoreCookies: true}, Storable},
		{"both", []string{"Cookie", "a=b", "Authorization", "x"}, []string{"Cache-Control", "s-maxage=60"}, "/", Policy{}, HasAuthorization},
		{"neither", nil, []string{"Cache-Control", "max-age=60"}, "/", Policy{}, Storable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ex := withRequest(get(200, header(tc.response...)), tc.request...)
			ex.Path = tc.path
			d := Decide(ex, &tc.p)
			assert.Equal(t, tc.want, d.Reason)
			assert.Equal(t, tc.want == Storable, d.Store)
		})
	}
}

func TestMayReuse(t *testing.T) {
	plain := Decide(get(200, header("Cache-Control", "max-age=60")), &Policy{}).Life
	shared := Decide(get(200, header("Cache-Control", "public, max-age=60")), &Policy{}).Life
	for _, tc := range []struct {
		name    string
		l       *Life
		request http.Header
		p       Policy
		want    Reason
	}{
		{"plain", &plain, nil, Policy{}, Storable},
		{"cookie, plain", &plain, header("Cookie", "a"), Policy{}, HasCookie},
		{"cookie, shared", &shared, header("Cookie", "a"), Policy{}, Storable},
		{"credentials", &shared, header("Authorization", "a"), Policy{}, HasAuthorization},
		{"§3.5 speaks of stored requests only", &plain, header("Authorization", "a"), Policy{AuthorizationByRFC: true}, Storable},
	} {
		ok, r := MayReuse(tc.l, tc.request, &tc.p)
		assert.Equal(t, tc.want, r, tc.name)
		assert.Equal(t, tc.want == Storable, ok, tc.name)
	}
}

func TestErrorsNeverLastByDefault(t *testing.T) {
	explicit := Decision{Store: true, ShareOnce: true, Life: Life{ReceivedAt: t0, Lifetime: DefaultErrorMax, Source: FromMaxAge}}
	assert.Equal(t, explicit, Decide(get(500, header("Cache-Control", "max-age=86400")), &Policy{}))
	byClass := Policy{TTLByClass: [6]time.Duration{2: time.Hour, 4: time.Hour, 5: time.Second}, Floor: time.Hour}
	for status, want := range map[int]Decision{
		400: {Reason: ProvokedWithoutLifetime}, 405: {Reason: ProvokedWithoutLifetime}, 413: {Reason: ProvokedWithoutLifetime},
		414: {Reason: ProvokedWithoutLifetime}, 431: {Reason: ProvokedWithoutLifetime},
		404: {Store: true, ShareOnce: true, Life: Life{Lifetime: time.Hour, Source: FromRouteClass}},
		503: {Store: true, ShareOnce: true, Life: Life{Lifetime: time.Second, Source: FromRouteClass}},
	} {
		want.Life.ReceivedAt = t0
		assert.Equal(t, want, Decide(get(status, header()), &byClass), status)
	}
	for _, h := range []http.Header{header("ETag", `"a"`), header("Cache-Control", "max-age=0", "ETag", `"a"`), header("Cache-Control", "public")} {
		assert.Equal(t, ErrorWithoutLifetime, Decide(get(502, h), &Policy{ShareOnce: true, Floor: time.Hour}).Reason)
		assert.False(t, Decide(get(502, h), &Policy{ShareOnce: true, Floor: time.Hour}).ShareOnce)
	}
}

func TestExtensionGuard(t *testing.T) {
	for _, tc := range []struct {
		path, mediaType string
		known, fits     bool
		mismatched      bool
	}{
		{"/x.css", "text/css", true, true, false},
		{"/x.CSS", "text/css", true, true, false},
		{"/account/x.css", "text/html", true, false, true},
		{"/account;x.css", "text/html", true, false, true},
		{"/account;x.css", "text/css", true, true, false},
		{"/x.css;v=1.2", "text/css", true, true, false},
		{"/x.css;y.js", "text/css", true, false, true},
		{"/account%2Fx.js", "text/html", true, false, true},
		{"/x.js", "application/javascript", true, true, false},
		{"/x.png", "image/webp", true, true, false},
		{"/x.png", "", true, false, true},
		{"/x.tar.gz", "application/gzip", true, true, false},
		{"/x.strange", "application/x-strange", false, false, false},
		{"/x.strange", "text/html", false, false, true},
		{"/x.css/y", "text/html", false, false, true},
		{"/x", "text/css", false, false, false},
	} {
		known, fits := ExtensionFits(tc.path, tc.mediaType)
		assert.Equal(t, [3]bool{tc.known, tc.fits, tc.mismatched}, [3]bool{known, fits, mismatched(tc.path, tc.mediaType)}, tc.path)
	}
	p := Policy{ByExtension: true, TTLByClass: [6]time.Duration{2: time.Hour, 4: time.Minute}}
	ex := get(200, header("Content-Type", "text/html"))
	ex.Path = "/account/x.css"
	assert.Equal(t, ExtensionMismatch, Decide(ex, &p).Reason)
	ex.Status = 404
	assert.Equal(t, Storable, Decide(ex, &p).Reason)
	ex.Status, ex.Header = 200, header("Content-Type", "text/html", "Cache-Control", "public, max-age=9")
	assert.Equal(t, Storable, Decide(ex, &p).Reason)
}

func TestStaticTypes(t *testing.T) {
	for v, want := range map[string]bool{
		"text/css": true, "Text/CSS; charset=utf-8": true, "image/svg+xml": true, "font/woff2": true, "application/pdf": true, "application/wasm": true, "video/mp4": true,
		"text/html": false, "application/json": false, "text/plain": false, "image": false, "image/": false, "": false, "application/octet-stream": false,
	} {
		assert.Equal(t, want, IsStaticType(MediaType(header("Content-Type", v))), v)
	}
	assert.Equal(t, "", MediaType(header("Content-Type", "image/png", "Content-Type", "text/html")))
}

func TestReasonsAreSentences(t *testing.T) {
	for r := Reason(0); r < reasonCount; r++ {
		s := r.String()
		assert.NotEmpty(t, s)
		assert.NotEqual(t, byte('.'), s[len(s)-1], s)
	}
	assert.Equal(t, "unknown reason", reasonCount.String())
}
