package integration

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// app is the server-rendered application of testdata/origin.js.
type app struct {
	t      *testing.T
	url    string
	client *http.Client
	*process
}

// seen is what the application knows of a URL of its own.
type seen struct {
	Count   int                 // requests
	Cut     int                 // of these, connections closed before the answer's end
	Headers []map[string]string // of the requests, names in lower case
	Bodies  []string            // those that it read
	Waiting int                 // how many wait to be released
}

func startApp(t *testing.T) *app {
	t.Helper()
	node := need(t, "node", "apt-get install nodejs")
	p := start(t, true, node, filepath.Join("testdata", "origin.js"))
	port, found := strings.CutPrefix(p.first, "listening on ")
	require.True(t, found, "node said %q", p.first)
	return &app{t, "http://127.0.0.1:" + port, newClient(t), p}
}

func (a *app) control(what, path string) seen {
	a.t.Helper()
	r, err := testnet.Do(a.client, http.MethodGet, a.url+"/_/"+what+"?url="+url.QueryEscape(path))
	require.NoError(a.t, err)
	var s seen
	require.NoError(a.t, json.Unmarshal([]byte(r.Body), &s))
	return s
}

// seen tells about requests for a path.
func (a *app) seen(path string) seen { a.t.Helper(); return a.control("seen", path) }

// release lets whoever waits behind a path go on, or the next one to come.
func (a *app) release(path string) { a.t.Helper(); a.control("release", path) }

// await waits until n requests wait behind a path.
func (a *app) await(path string, n int) {
	a.t.Helper()
	eventually(a.t, "requests arrive at "+path, func() bool { return a.seen(path).Waiting >= n })
}
