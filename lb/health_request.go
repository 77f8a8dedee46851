package lb

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhttp/weir/internal/field"
)

// ownRequest returns a request that no visitor sent: of a health check or a
// warm-up.
func ownRequest(ctx context.Context, method string, base *url.URL, target, host string, header http.Header) (*http.Request, error) {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, err
	}
	u.Scheme, u.Host = base.Scheme, base.Host
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header.Set("User-Agent", "weir")
	}
	if host != "" {
		req.Host = host
	}
	return req, nil
}

// onPort returns base with another port; 0 leaves it.
func onPort(base *url.URL, port int) *url.URL {
	if port == 0 {
		return base
	}
	u := *base
	u.Host = net.JoinHostPort(base.Hostname(), strconv.Itoa(port))
	return &u
}

// target checks the path of a request.
func (p *problems) target(name, v string) {
	if u, err := url.ParseRequestURI(v); err != nil || !strings.HasPrefix(v, "/") || u.Host != "" || u.Fragment != "" || strings.ContainsAny(v, " #") {
		p.bad(name, v, `must be a path with or without query, beginning with "/", such as "/healthz"`)
	}
}

// hostField checks the value of a Host field.
func (p *problems) hostField(name, v string) {
	if v == "" {
		return
	}
	if u, err := url.Parse("//" + v); err != nil || u.Host != v || u.Hostname() == "" {
		p.bad(name, v, `must be a host name or address, with or without port, such as "www.example.com"`)
	}
}

// header checks fields that are sent.
func (p *problems) header(name string, h http.Header) {
	for _, key := range slices.Sorted(maps.Keys(h)) {
		switch {
		case strings.EqualFold(key, "Host"):
			p.bad(name, key, "can't be sent this way; set Host instead")
		case !field.IsToken(key) || slices.ContainsFunc(h[key], func(v string) bool { return strings.ContainsFunc(v, isControl) }):
			p.bad(name, key, "must have a valid name and values without line breaks or other control characters")
		}
	}
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
