package main

import (
	"context"
	"net/http"

	"github.com/weirhttp/weir/admission"
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

// The ceiling of withGovernor, and what of it only checkouts can take.
const (
	ceiling = 10
	reserve = 2
)

// withGovernor puts weir before next and bounds what reaches next at once. Whoever
// finds no room waits for it.
func withGovernor(next http.Handler) (http.Handler, func(context.Context) error, error) {
	mw, err := middleware.New(middleware.Options{
		Admission: middleware.AdmissionOptions{
			Limiter: &admission.Options{
				Limit: ceiling, ReserveCritical: reserve,
				// The show's visitors are patient. Elsewhere leave all this out: a
				// queue that doesn't get shorter is better cut off.
				Queue: 100, QueueTimeout: visitTimeout, StandingAfter: -1,
			},
			// By the path, anybody who asks for a checkout is critical, and so is a
			// flood of them. Elsewhere go by a session that you have verified, and
			// bound the clients with ClientLimit.
			Priority: func(r *http.Request) admission.Class {
				if r.URL.Path == checkoutPage {
					return admission.Critical
				}
				return admission.Normal
			},
		},
	})
	if err != nil {
		return nil, nil, err
	}
	return mw.Wrap(next), mw.Close, nil
}
