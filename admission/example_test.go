package admission_test

import (
	"context"
	"fmt"

	"github.com/weirhttp/weir/admission"
)

func Example() {
	l, err := admission.New(admission.Options{
		Limit:           10,
		ReserveCritical: 3,
		Routes:          []admission.Route{{Name: "search", Limit: 2, Queue: -1}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	search, _ := l.Route("search")
	for range 3 {
		permit, d := l.Acquire(context.Background(), admission.Request{Route: search, Tenant: "shop"})
		defer permit.Release() // when the work has ended
		fmt.Println(d.Reason, d.RetryAfter)
	}
	// Output:
	// admitted 0s
	// admitted 0s
	// route-full 1s
}
