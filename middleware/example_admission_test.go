package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/admission/guard"
	"github.com/weirhttp/weir/middleware"
)

// An origin that does ten things at once at most, two of which are for checkouts
// alone; each client may ask ten times a second, and no request may search more than
// twice.
func Example_admission() {
	policy := guard.Policy{
		Version: 1, Expires: time.Now().Add(24 * time.Hour),
		Global: admission.Rate{PerSecond: 1000}, Unknown: admission.Rate{PerSecond: 500}, Address: admission.Rate{PerSecond: 10},
		Routes: []guard.Route{{Name: "search", Cost: 5}},
		Work:   guard.Work{Global: 20, Unknown: 10, Local: 20}, Operations: 2, ContextAgeMS: 5000,
	}
	g, err := guard.New(guard.Options{Policy: policy, Routes: []string{"search"}})
	if err != nil {
		panic(err)
	}
	mw, err := middleware.New(middleware.Options{Admission: middleware.AdmissionOptions{
		Limiter:  &admission.Options{Limit: 10, ReserveCritical: 2},
		Overload: &admission.OverloadOptions{},
		Guard:    g,
		Priority: func(r *http.Request) admission.Class {
			if r.URL.Path == "/checkout" {
				return admission.Critical
			}
			return admission.Normal
		},
	}})
	if err != nil {
		panic(err)
	}
	defer mw.Close(context.Background())
	h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			err := guard.Do(r.Context(), "search", func(context.Context) error { return nil })
			var refused *guard.RefusedError
			if errors.As(err, &refused) {
				middleware.WriteRefusal(w, r, http.StatusServiceUnavailable, refused.RetryAfter)
				return
			}
		}
	}))
	srv := middleware.NewServer(h, middleware.ServerOptions{Addr: ":8080"}) // and srv.ListenAndServe()

	w := httptest.NewRecorder()
	srv.Handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code)
	// Output: 503
}
