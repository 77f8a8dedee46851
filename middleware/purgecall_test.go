package middleware

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/purge"
)

// What a call purges by is brought to the form of the keys in a copy.
func TestPurgeLeavesTheCallersSelectors(t *testing.T) {
	mw, err := New(Options{Default: Route{Key: cachekey.Options{Query: cachekey.Exclude("utm")}}})
	require.NoError(t, err)
	defer func() { require.NoError(t, mw.Close(t.Context())) }()
	mw.Wrap(http.NotFoundHandler())
	mine := []purge.Selector{{Kind: purge.ExactURL, Host: "example.com", Path: "/", Query: "utm=1&a=1"}}
	before := slices.Clone(mine)
	_, err = mw.Purge(t.Context(), mine...)
	require.NoError(t, err)
	require.Equal(t, before, mine)
}

// No handler has a zone that no purge could name.
func TestZoneNamesAreBounded(t *testing.T) {
	mw, err := New(Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, mw.Close(t.Context())) }()
	mw.WrapZone(strings.Repeat("z", purge.MaxZoneBytes), http.NotFoundHandler())
	require.PanicsWithValue(t, "middleware: WrapZone: the name has 256 bytes, at most 255 are allowed", func() {
		mw.WrapZone(strings.Repeat("z", purge.MaxZoneBytes+1), http.NotFoundHandler())
	})
}

// The client of an unsafe request goes away just before its answer. What it made invalid
// is durable all the same.
func TestAClientThatLeavesMakesNoPurgeLessDurable(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	mw, err := New(Options{Purge: journalIn(t.TempDir()), Logger: logger, Default: Route{Key: cachekey.Options{Headers: []string{"X-Device"}}}})
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave()
		w.WriteHeader(http.StatusNoContent)
	}))
	before := mw.purges.list.Now()
	h.ServeHTTP(recorder(), request("POST", "/a").WithContext(ctx))
	require.Equal(t, before+1, mw.purges.list.Now())
	require.Equal(t, before+1, mw.purges.list.Written())
	require.NoError(t, mw.Close(context.Background()))
	require.NotContains(t, log.String(), "durable")
}
