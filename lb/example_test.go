package lb_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"

	"github.com/weirhttp/weir/lb"
)

// A pool of two origins behind a ReverseProxy, one of which is taken out.
func Example() {
	hello := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") }))
	defer hello.Close()
	u, _ := url.Parse(hello.URL)

	b, err := lb.New(lb.Options{Pools: []lb.Pool{{
		Name:      "app",
		Policy:    lb.LeastConnections,
		Origins:   []lb.Origin{{ID: "one", Address: u.Host}, {ID: "two", Address: "192.0.2.1", Maintenance: true}},
		Transport: lb.TransportOptions{Scheme: "http"},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close(context.Background())
	proxy := &httputil.ReverseProxy{Transport: b, Rewrite: (*httputil.ProxyRequest).SetXForwarded}

	ctx, trail := lb.WithTrail(context.Background())
	w := httptest.NewRecorder()
	proxy.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "http://shop.test/", nil))
	body, _ := io.ReadAll(w.Result().Body)
	fmt.Println(string(body))
	for _, o := range trail.Record().Origins {
		fmt.Println(o.Origin, o)
	}
	// Output:
	// hello
	// one used
	// two in maintenance
}
