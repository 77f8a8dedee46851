package middleware_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/weirhttp/weir/middleware"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/disk"
)

// A cache with a disk: what was stored is there after a restart, and what was purged
// isn't.
func ExampleNew_disk() {
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	quiet := slog.New(slog.DiscardHandler)
	open := func() *middleware.Middleware {
		tier, err := disk.Open(disk.Options{Dir: filepath.Join(dir, "objects"), Logger: quiet})
		if err != nil {
			panic(err)
		}
		mw, err := middleware.New(middleware.Options{
			Store:  store.Options{Disk: tier},
			Purge:  middleware.PurgeOptions{List: purge.Options{Journal: filepath.Join(dir, "purges")}},
			Logger: quiet,
		})
		if err != nil {
			panic(err)
		}
		return mw
	}
	origin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		_, _ = io.WriteString(w, "a page")
	})
	get := func(mw *middleware.Middleware) string {
		w := httptest.NewRecorder()
		mw.Wrap(origin).ServeHTTP(w, httptest.NewRequest("GET", "http://example.com/news", nil))
		return w.Header().Get("Weir-Cache-Status")
	}
	ctx := context.Background()

	mw := open()
	fmt.Println("first process:", get(mw))
	fmt.Println(mw.Close(ctx))

	mw = open()
	fmt.Println("second process:", get(mw))
	if _, err := mw.Purge(ctx, purge.Selector{Kind: purge.URL, Host: "example.com", Path: "/news"}); err != nil {
		panic(err)
	}
	fmt.Println(mw.Close(ctx))

	mw = open()
	fmt.Println("third process:", get(mw))
	fmt.Println(mw.Close(ctx))
	// Output:
	// first process: MISS
	// <nil>
	// second process: HIT
	// <nil>
	// third process: MISS
	// <nil>
}
