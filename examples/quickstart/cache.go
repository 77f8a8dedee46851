package main

import (
	"context"
	"net/http"

	"github.com/weirhttp/weir/middleware"
)

// withWeir puts weir before next, which may be any http.Handler; here it's a
// proxy to the origin. Call the function that it returns when the server has
// shut down.
func withWeir(next http.Handler) (http.Handler, func(context.Context) error, error) {
	mw, err := middleware.New(middleware.Options{
		// Every answer explains itself, for the show. Elsewhere admit only
		// those who may see the cache's keys.
		Debug: func(*http.Request) bool { return true },
	})
	if err != nil {
		return nil, nil, err
	}
	return mw.Wrap(next), mw.Close, nil
}
