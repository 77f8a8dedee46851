package lb

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// body hangs or breaks after some text.
type body struct {
	io.Reader
	closed *bool
}

func (b body) Close() error { *b.closed = true; return nil }

type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, "aaaaaaaaaaaaaaaa"), nil }

type breaks struct{ before string }

func (b *breaks) Read(p []byte) (int, error) {
	n := copy(p, b.before)
	b.before = b.before[n:]
	if n == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}

func TestCheckJudgesStatusAndBody(t *testing.T) {
	for _, tt := range []struct {
		name   string
		check  HealthCheck
		status int
		body   io.Reader
		want   string
	}{
		{"200", HealthCheck{}, 200, strings.NewReader("x"), ""},
		{"204", HealthCheck{}, 204, strings.NewReader(""), ""},
		{"a redirect passes", HealthCheck{}, 302, strings.NewReader(""), ""},
		{"404", HealthCheck{}, 404, strings.NewReader(""), "status 404"},
		{"199", HealthCheck{}, 199, strings.NewReader(""), "status 199"},
		{"one status", HealthCheck{Status: []StatusRange{{First: 401}}}, 401, strings.NewReader(""), ""},
		{"only that", HealthCheck{Status: []StatusRange{{First: 401}}}, 200, strings.NewReader(""), "status 200"},
		{"several ranges", HealthCheck{Status: []StatusRange{{200, 204}, {401, 403}}}, 402, strings.NewReader(""), ""},
		{"between ranges", HealthCheck{Status: []StatusRange{{200, 204}, {401, 403}}}, 301, strings.NewReader(""), "status 301"},
		{"text found", HealthCheck{Body: "fine"}, 200, strings.NewReader("all is fine here"), ""},
		{"text missing", HealthCheck{Body: "fine"}, 200, strings.NewReader("all is lost"), "the expected text isn't in the body"},
		{"text within the bound", HealthCheck{Body: "fine"}, 200, strings.NewReader(strings.Repeat("a", 64<<10-4) + "fine"), ""},
		{"text beyond the bound", HealthCheck{Body: "fine"}, 200, strings.NewReader(strings.Repeat("a", 64<<10-3) + "fine"), "the expected text isn't in the body"},
		{"endless body", HealthCheck{}, 200, endless{}, ""},
		{"endless body with text", HealthCheck{Body: "b"}, 200, endless{}, "the expected text isn't in the body"},
		{"endless error page", HealthCheck{}, 500, endless{}, "status 500"},
		{"broken body", HealthCheck{}, 200, &breaks{"fi"}, "body: unexpected EOF"},
		{"broken before the text", HealthCheck{Body: "fine"}, 200, &breaks{"fi"}, "body: unexpected EOF"},
		{"broken after the text", HealthCheck{Body: "fine"}, 200, &breaks{"fine"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			closed := false
			got := tt.check.withDefaults().judge(&http.Response{StatusCode: tt.status, Body: body{tt.body, &closed}})
			assert.Equal(t, tt.want, got)
			assert.True(t, closed)
		})
	}
}

func TestCheckRequest(t *testing.T) {
	m := member{base: &url.URL{Scheme: "https", Host: "[2001:db8::1]:443"}}
	fixed := m
	fixed.host = "origin.internal"
	hosts := []string{"www.example.com", "example.com"}
	for _, tt := range []struct {
		check HealthCheck
		m     member
		hosts []string
		want  string
	}{
		{HealthCheck{Path: "/"}, m, nil, "GET https://[2001:db8::1]:443/ as [2001:db8::1]:443"},
		{HealthCheck{Path: "/a%2Fb?c=d"}, m, hosts, "GET https://[2001:db8::1]:443/a%2Fb?c=d as www.example.com"},
		{HealthCheck{Path: "/"}, fixed, hosts, "GET https://[2001:db8::1]:443/ as origin.internal"},
		{HealthCheck{Path: "/", Host: "check.me", Method: "HEAD", Port: 9000}, fixed, hosts, "HEAD https://[2001:db8::1]:9000/ as check.me"},
		{HealthCheck{Path: "//evil.test/x"}, m, hosts, "GET https://[2001:db8::1]:443//evil.test/x as www.example.com"},
	} {
		req, err := tt.check.withDefaults().request(context.Background(), tt.m, tt.hosts)
		require.NoError(t, err)
		assert.Equal(t, tt.want, req.Method+" "+req.URL.String()+" as "+req.Host)
		assert.Equal(t, http.Header{"User-Agent": {"weir"}}, req.Header)
	}
	req, err := HealthCheck{Path: "/", Header: http.Header{"User-Agent": {"me"}, "X-Forwarded-Proto": {"https"}}}.withDefaults().
		request(context.Background(), m, nil)
	require.NoError(t, err)
	assert.Equal(t, http.Header{"User-Agent": {"me"}, "X-Forwarded-Proto": {"https"}}, req.Header)
}
