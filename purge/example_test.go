package purge_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weirhttp/weir/purge"
)

// The life of a stored response.
func Example() {
	list, err := purge.New(purge.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	tags, _ := purge.NewTagReader(purge.TagField{Name: "Cache-Tag"})

	// When the request to the origin is sent:
	facts := purge.Facts{Seq: list.Now(), Zone: "shop", Scheme: "https", Host: "example.com", Path: "/shoes"}
	// When the response is there, before it is stored:
	tags.Read(http.Header{"Cache-Tag": {"products, shoes"}}, &facts)
	subject := purge.NewSubject(facts)
	fmt.Println(list.Check(subject))

	// Somebody purges, and the next visitor comes:
	_, _ = list.Add(context.Background(), purge.Selector{Kind: purge.Tag, Zone: "shop", Tag: "shoes"})
	fmt.Println(list.Check(subject))
	// Output:
	// valid
	// gone
}

func ExampleNewHandler() {
	list, _ := purge.New(purge.Options{})
	h, err := purge.NewHandler(purge.HandlerOptions{List: list, Authorise: purge.BearerToken("s3cret")})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest(http.MethodPost, "/purge", strings.NewReader(
		`{"purge": [{"kind": "prefix", "host": "example.com", "path": "/blog", "soft": true}, {"kind": "tag"}]}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer s3cret")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Print(w.Code, " ", w.Body)
	// Output:
	// 400 {"error":"1 selectors are wrong; nothing was purged","selectors":[{"index":1,"field":"tag","reason":"kind tag needs one"}]}
}
