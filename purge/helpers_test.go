package purge

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

var background = context.Background()

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func mustNew(tb testing.TB, o Options) *List {
	tb.Helper()
	if o.Logger == nil {
		o.Logger = quiet()
	}
	l, err := New(o)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = l.Close(background) })
	return l
}

func mustAdd(tb testing.TB, l *List, s ...Selector) Result {
	tb.Helper()
	res, err := l.Add(background, s...)
	require.NoError(tb, err)
	return res
}

// page is a response of zone z on example.com, fetched now.
func page(l *List, path string, tags ...string) *Subject {
	return NewSubject(Facts{Seq: l.Now(), Zone: "z", Scheme: "https", Host: "example.com", Path: path, Tags: tags})
}

func tagged(tag string) Selector { return Selector{Kind: Tag, Zone: "z", Tag: tag} }

func key(n int) (k [32]byte) {
	copy(k[:], fmt.Sprintf("key %d", n))
	return k
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func mustURL(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}
