package rfc9111

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// When StoredUnchanged says yes, StoredHeader must indeed change nothing.
func TestStoredUnchangedIsTrue(t *testing.T) {
	date := http.Header{"Date": {"Mon, 02 Jan 2006 15:04:05 GMT"}}
	for _, c := range []struct {
		add  http.Header
		want bool
	}{
		{nil, true},
		{http.Header{"Cache-Control": {"public, max-age=60"}, "Etag": {`"1"`}}, true},
		{http.Header{"Age": {"1"}}, false},
		{http.Header{"Set-Cookie": {"a=b"}}, false},
		{http.Header{"Set-Cookie2": {"a=b"}}, false},
		{http.Header{"Connection": {"X-A"}, "X-A": {"1"}}, false},
		{http.Header{"Keep-Alive": {"timeout=5"}}, false},
		{http.Header{"Cache-Control": {`max-age=60, no-cache="X-A"`}, "X-A": {"1"}}, false},
		{http.Header{"Cache-Control": {`max-age=60, private="X-A"`}, "X-A": {"1"}}, false},
		{http.Header{"Date": nil}, false},
	} {
		h := maps.Clone(date)
		maps.Copy(h, c.add)
		for _, p := range []Policy{{}, {StoreSetCookie: true}} {
			got := StoredUnchanged(h, &p)
			assert.Equal(t, c.want, got, "%v", h)
			if got {
				assert.Equal(t, h, StoredHeader(h, time.Now(), &p))
			}
		}
	}
}
