package lb

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// OPTIONS and TRACE are passed on as often as Max-Forwards says (RFC 9110 §7.6.2).
func TestMaxForwards(t *testing.T) {
	for _, c := range []struct {
		method string
		said   []string
		status int
		sent   []string
	}{
		{"OPTIONS", []string{"0"}, 204, nil},
		{"OPTIONS", []string{" 00\t"}, 204, nil},
		{"TRACE", []string{"0"}, 405, nil},
		{"OPTIONS", []string{"1"}, 200, []string{"0"}},
		{"TRACE", []string{"010"}, 200, []string{"9"}},
		{"TRACE", []string{"99999999999999999999999"}, 200, []string{"999999999"}},
		{"TRACE", []string{"1000000000"}, 200, []string{"999999999"}},
		{"OPTIONS", []string{"999999999"}, 200, []string{"999999998"}},
		{"OPTIONS", nil, 200, nil},
		{"OPTIONS", []string{""}, 200, []string{""}},
		{"OPTIONS", []string{"-1"}, 200, []string{"-1"}},
		{"OPTIONS", []string{"1, 2"}, 200, []string{"1, 2"}},
		{"OPTIONS", []string{"0", "1"}, 200, []string{"0", "1"}},
		{"GET", []string{"0"}, 200, []string{"0"}},
		{"POST", []string{"3"}, 200, []string{"3"}},
	} {
		asked := false
		p, err := NewProxy(ProxyOptions{Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) {
			asked = true
			assert.Equal(t, c.sent, r.Header["Max-Forwards"])
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
		})})
		require.NoError(t, err)
		r := httptest.NewRequest(c.method, "/", nil)
		if c.said != nil {
			r.Header["Max-Forwards"] = c.said
		}
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		assert.Equal(t, c.status, w.Code, "%s %q", c.method, c.said)
		assert.Equal(t, c.status == 200, asked, "%s %q", c.method, c.said)
		assert.Empty(t, w.Body.String())
		if c.status == 405 {
			assert.NotEmpty(t, w.Header()["Allow"])
		}
	}
}
