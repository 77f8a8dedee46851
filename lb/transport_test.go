package lb

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSmoke(t *testing.T) {
	for _, proto := range []string{"h1", "h1tls", "h2", "h2c"} {
		t.Run(proto, func(t *testing.T) {
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				fmt.Fprintf(w, "%s %s %s %d %s", r.Proto, r.Host, r.Method, r.ContentLength, b)
			}))
			o := TransportOptions{Scheme: "http"}
			switch proto {
			case "h1":
				srv.Start()
			case "h1tls":
				srv.StartTLS()
				o.Scheme = "https"
			case "h2":
				srv.EnableHTTP2 = true
				srv.StartTLS()
				o.Scheme = "https"
			case "h2c":
				srv.Config.Protocols = new(http.Protocols)
				srv.Config.Protocols.SetUnencryptedHTTP2(true)
				srv.Start()
				o.Protocol = ProtocolHTTP2
			}
			defer srv.Close()
			if o.Scheme == "https" {
				o.RootCAs = srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
				o.ServerName = "example.com"
			}
			tr, err := newTransport(srv.Listener.Addr().String(), o)
			require.NoError(t, err)
			defer tr.Close()
			for i := range 3 {
				for _, m := range []string{"GET", "POST"} {
					var body io.Reader
					if m == "POST" {
						body = strings.NewReader("hello")
					}
					req, _ := http.NewRequest(m, "http://shop.test/x", body)
					var info attemptInfo
					res, err := tr.roundTrip(req, false, &info)
					require.NoError(t, err)
					b, err := io.ReadAll(res.Body)
					require.NoError(t, err)
					res.Body.Close()
					t.Log(i, string(b), info)
				}
			}
		})
	}
}
