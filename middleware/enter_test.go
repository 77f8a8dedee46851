package middleware

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/admission/guard"
	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/trace"
)

// policyOf is a policy with generous rates but for those changed.
func policyOf(change func(*guard.Policy)) guard.Policy {
	lots := admission.Rate{PerSecond: 1e5}
	p := guard.Policy{
		Version: 1, Expires: time.Now().Add(time.Hour), Global: admission.Rate{PerSecond: 2e5}, Unknown: lots, Address: lots,
		Work: guard.Work{Global: 10, Unknown: 9, Local: 10}, Operations: 2, ContextAgeMS: 10_000,
	}
	if change != nil {
		change(&p)
	}
	return p
}

func newGuard(t testing.TB, change func(*guard.Policy)) *guard.Guard {
	t.Helper()
	g, err := guard.New(guard.Options{Policy: policyOf(change), Addresses: 1000})
	require.NoError(t, err)
	return g
}

// perAddress lets each address in twice, and then once in ten seconds.
func perAddress(p *guard.Policy) {
	p.Address = admission.Rate{PerSecond: 0.1, Burst: 2}
}

// Rates are counted before anything else is done, for hits as well, and whoever has
// used its own up is told when to come again.
func TestRates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Admission: AdmissionOptions{Guard: newGuard(t, perAddress)}}, public("abc"))
		require.Equal(t, 200, s.get("/", "Peer", "192.0.2.1").status)
		require.Equal(t, 200, s.get("/", "Peer", "192.0.2.1").status)
		for _, method := range []string{"GET", "HEAD", "POST", "PRI"} {
			r := s.do(method, "/", "Peer", "192.0.2.1")
			require.Equal(t, 429, r.status)
			require.Equal(t, trace.Shed, r.record.Cache.Status)
			require.Equal(t, "admission refused the request: rate-address", r.record.Cache.Reason)
			require.Equal(t, trace.Admission{Verdict: "refused", Reason: "rate-address"}, r.record.Admission)
			require.GreaterOrEqual(t, atoi(r.header.Get("Retry-After")), 10)
			require.Equal(t, "SHED", r.header.Get("Weir-Cache-Status"))
		}
		require.Equal(t, 200, s.get("/", "Peer", "192.0.2.2").status, "another client")
		after(10 * time.Second)
		require.Equal(t, 200, s.get("/", "Peer", "192.0.2.1").status)
		s.asked(1)
	})
}

// Who a client is comes from its connection, and from what trusted proxies say. What
// it writes itself changes nothing.
func TestSpoofedAddressChangesNothing(t *testing.T) {
	proxy := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for name, c := range map[string]struct {
		trusted []netip.Prefix
		peer    string
		field   guard.Forwarding
		header  func(i int) (name, value string)
		passed  int // of 10
	}{
		"no proxies":                  {nil, "192.0.2.1", 0, func(i int) (string, string) { return "X-Forwarded-For", fmt.Sprint("203.0.113.", i) }, 2},
		"not from the proxy":          {proxy, "192.0.2.1", 0, func(i int) (string, string) { return "X-Forwarded-For", fmt.Sprint("203.0.113.", i) }, 2},
		"from the proxy":              {proxy, "10.0.0.1", 0, func(i int) (string, string) { return "X-Forwarded-For", fmt.Sprint("203.0.113.", i) }, 10},
		"written before the proxy":    {proxy, "10.0.0.1", 0, func(i int) (string, string) { return "X-Forwarded-For", fmt.Sprint("203.0.113.", i, ", 198.51.100.1") }, 2},
		"another field":               {proxy, "10.0.0.1", 0, func(i int) (string, string) { return "Forwarded", fmt.Sprint("for=203.0.113.", i) }, 2},
		"the field of the proxy":      {proxy, "10.0.0.1", guard.Forwarded, func(i int) (string, string) { return "Forwarded", fmt.Sprint("for=203.0.113.", i) }, 10},
		"another one than the proxys": {proxy, "10.0.0.1", guard.Forwarded, func(i int) (string, string) { return "X-Forwarded-For", fmt.Sprint("203.0.113.", i) }, 2},
		"real-ip":                     {proxy, "10.0.0.1", 0, func(i int) (string, string) { return "X-Real-Ip", fmt.Sprint("203.0.113.", i) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{
					TrustedProxies: c.trusted,
					Admission:      AdmissionOptions{Guard: newGuard(t, perAddress), ClientField: c.field},
				}, public("abc"))
				passed := 0
				for i := range 10 {
					field, value := c.header(i)
					if s.get("/", "Peer", c.peer, field, value).status == 200 {
						passed++
					}
				}
				require.Equal(t, c.passed, passed)
			})
		})
	}
}

// A flood of addresses takes bounded memory, and lets no more through.
func TestAMillionAddresses(t *testing.T) {
	n := 1_000_000
	if testnet.Race {
		n = 100_000
	}
	g := newGuard(t, perAddress)
	mw, err := New(Options{Admission: AdmissionOptions{Guard: g}})
	require.NoError(t, err)
	defer func() { require.NoError(t, mw.Close(context.Background())) }()
	h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		goodFor60(w.Header())
	}))
	r, w := request("GET", "/"), &reusable{h: http.Header{}}
	passed := 0
	for i := range n {
		r.RemoteAddr = fmt.Sprintf("[2001:db8:%x:%x::1]:1234", i>>16, i&0xffff)
		clear(w.h)
		h.ServeHTTP(w, r)
		if w.status == 200 {
			passed++
		}
	}
	require.LessOrEqual(t, g.Stats().Addresses, 1000)
	require.Less(t, passed, n/10)
}

// A PURGE request gets through whatever the visitors do, and doesn't count as one.
func TestPurgeIsTheOperators(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{
			Purge: PurgeOptions{Authorise: func(r *http.Request) (string, error) {
				if r.Header.Get("Authorization") == "Bearer right" {
					return "operator", nil
				}
				return "", purge.ErrNoCredentials
			}},
			Admission: AdmissionOptions{
				Limiter:  &admission.Options{Limit: 1, Queue: -1},
				Overload: &admission.OverloadOptions{Knee: 1, Limit: 2, LagKnee: -1},
				Guard:    newGuard(t, perAddress),
			},
		}, public("abc"))
		p, _ := s.mw.governor.limiter.TryAcquire(admission.Request{})
		defer p.Release()
		for range 2 {
			token, d := s.mw.governor.overload.Enter(admission.Arrival{From: admission.FromOperator})
			require.True(t, d.OK())
			defer token.Leave()
		}
		require.Equal(t, 503, s.get("/").status)
		for range 5 {
			require.Equal(t, 200, s.do("PURGE", "/", "Authorization", "Bearer right").status)
		}
		require.Equal(t, 503, s.do("PURGE", "/").status, "anyone can send that")
	})
}

// With too many requests in the process the tenants' are shed right after the head,
// hits too, the operator's last, and health probes have a reserve of their own.
func TestOverload(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newWorks(0)
		r := newRig(t, Options{Admission: AdmissionOptions{
			Overload: &admission.OverloadOptions{Knee: 2, Limit: 4, OperatorLimit: 5, TenantFloor: 4, ProbeReserve: 1, LagKnee: -1},
			Sender: func(r *http.Request) admission.Sender {
				switch r.URL.Path {
				case "/health":
					return admission.FromProbe
				case "/admin":
					return admission.FromOperator
				case "/nobodys":
					return admission.FromUnknown
				}
				return admission.FromTenant
			},
		}}, o)
		r.get("/a", 200, "/a")
		var held []*call
		for i := range 4 {
			held = append(held, r.lead(fmt.Sprint("/held/", i)))
		}
		require.Equal(t, 4, r.mw.AdmissionStats().Overload.InFlight)
		r.start("/a").shed(t, 503)
		require.Equal(t, trace.Admission{Verdict: "refused", Reason: "tenants-shed"}, r.record().Admission)
		r.startPost("/a").shed(t, 503)
		r.start("/nobodys").shed(t, 503)
		r.get("/admin", 200, "/admin")
		r.get("/health", 200, "/health")
		o.free()
		for i, c := range held {
			c.whole(t, 200, fmt.Sprint("/held/", i))
		}
		settle()
		require.Zero(t, r.mw.AdmissionStats().Overload.InFlight)
		require.Equal(t, "HIT", r.get("/a", 200, "/a"))
	})
}

// What the overload guard counts comes back, whatever ends the request.
func TestOverloadTokenComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Options{Admission: AdmissionOptions{Overload: &admission.OverloadOptions{LagKnee: -1}}},
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { panic("x") }))
		for range 3 {
			<-r.start("/").done
			<-r.startPost("/").done
		}
		settle()
		s := r.mw.AdmissionStats().Overload
		require.Zero(t, s.InFlight)
		require.Equal(t, uint64(6), s.Admitted)
	})
}

// A handler's expensive operations are counted for the request that they belong to,
// whichever way it came.
func TestOperationsInsideAHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGuard(t, func(p *guard.Policy) { p.Routes = []guard.Route{{Name: "search"}} })
		var errs []error
		mw, err := New(Options{Admission: AdmissionOptions{Guard: g}})
		require.NoError(t, err)
		defer func() { require.NoError(t, mw.Close(context.Background())) }()
		h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if d, err := time.ParseDuration(r.URL.Query().Get("after")); err == nil {
				time.Sleep(d)
			}
			for range 3 {
				errs = append(errs, guard.Do(r.Context(), "search", func(context.Context) error { return nil }))
			}
		}))
		for _, method := range []string{"GET", "POST"} {
			errs = nil
			h.ServeHTTP(recorder(), request(method, "/"))
			require.Equal(t, []error{nil, nil, &guard.RefusedError{What: "search", Reason: guard.Operations}}, errs)
			errs = nil
			h.ServeHTTP(recorder(), request(method, "/?after=11s"))
			var refused *guard.RefusedError
			require.True(t, errors.As(errs[0], &refused))
			require.Equal(t, guard.ContextAge, refused.Reason)
		}
		settle()
	})
}

// The rate of a route bounds all clients together.
func TestRateOfARoute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGuard(t, func(p *guard.Policy) {
			p.Routes = []guard.Route{{Name: "shop", Rate: admission.Rate{PerSecond: 1, Burst: 3}}}
		})
		s := newSite(t, Options{
			Admission: AdmissionOptions{Guard: g},
			Default:   Route{Admission: RouteAdmission{Rate: "shop"}},
		}, public("abc"))
		for i := range 10 {
			r := s.get("/", "Peer", fmt.Sprint("192.0.2.", i))
			if i < 3 {
				require.Equal(t, 200, r.status)
				continue
			}
			require.Equal(t, 429, r.status)
			require.Equal(t, "rate-route", r.record.Admission.Reason)
		}
		// A later policy lacks the route: that is nobody's rate.
		require.NoError(t, g.Replace(func() guard.Policy { p := policyOf(nil); p.Version = 2; return p }()))
		r := s.get("/")
		require.Equal(t, 503, r.status)
		require.Equal(t, "no-route", r.record.Admission.Reason)
	})
}

// All that is wrong is reported at once, each with its place and its cure.
func TestAdmissionOptionsAreChecked(t *testing.T) {
	g := newGuard(t, nil)
	prio := func(*http.Request) admission.Class { return 0 }
	sender := func(*http.Request) admission.Sender { return 0 }
	verifier, err := guard.NewVerifier(guard.VerifierOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, verifier.Close(context.Background())) }()
	for name, c := range map[string]struct {
		o    AdmissionOptions
		r    RouteAdmission
		want []string
	}{
		"nothing": {},
		"without their parts": {
			AdmissionOptions{Priority: prio, Weights: map[string]int{"a": 1}, Sender: sender, Verifier: verifier},
			RouteAdmission{Class: admission.Critical, Route: "x", Cost: 2, Rate: "y"},
			[]string{"Admission.Priority", "Admission.Weights", "Admission.Sender", "Admission.Verifier", "Default.Admission =", "Default.Admission.Rate"},
		},
		"values": {
			AdmissionOptions{Limiter: &admission.Options{}, Overload: &admission.OverloadOptions{}, Guard: g, Weights: map[string]int{"a": 1001, "b": 0}, ClientField: 9},
			RouteAdmission{Class: 9, Route: "x", Cost: -1, Rate: "y"},
			[]string{`Admission.Weights["a"]`, `Admission.Weights["b"]`, "Admission.ClientField", "Default.Admission.Class", "Default.Admission.Cost", "Default.Admission.Route", "Default.Admission.Rate"},
		},
		"of the parts": {
			AdmissionOptions{Limiter: &admission.Options{Limit: -1}, Overload: &admission.OverloadOptions{Knee: -1}},
			RouteAdmission{},
			[]string{
				"middleware: Admission.Limiter.Limit = -1: ", "middleware: Admission.Overload.Knee = -1: ",
				"middleware: Admission.Overload.Limit", "middleware: Admission.Overload.OperatorLimit",
			},
		},
		"fine": {
			AdmissionOptions{
				Limiter: &admission.Options{Routes: []admission.Route{{Name: "x"}}}, Priority: prio,
				Overload: &admission.OverloadOptions{}, Sender: sender, Guard: g, Verifier: verifier,
			},
			RouteAdmission{Class: admission.Background, Route: "x", Cost: 5}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			mw, err := New(Options{Admission: c.o, Default: Route{Admission: c.r}, BodyTimeout: -1})
			if c.want == nil {
				require.NoError(t, err)
				require.NoError(t, mw.Close(context.Background()))
				return
			}
			require.Error(t, err)
			for _, w := range c.want {
				require.Contains(t, err.Error(), w)
			}
			require.Equal(t, len(c.want), strings.Count(err.Error(), "\n")+1, err.Error())
		})
	}
	_, err = New(Options{BodyTimeout: -1, BodyRate: 1})
	require.ErrorContains(t, err, "middleware: BodyRate = 1: has no effect, since BodyTimeout is off")
}

// A hit costs no allocation more with ceilings and overload guard on, nor with rates.
func TestHitWithAdmissionAllocatesOnce(t *testing.T) {
	for name, a := range admissions(t) {
		h, r, w := hitFixtureWith(t, Options{Admission: a}, 1024, true)
		r.Header.Set("X-Forwarded-For", "203.0.113.1, 203.0.113.2")
		testnet.Allocs(t, 1, func() { h.ServeHTTP(w, r) }, name)
	}
}

// admissions are what can be on.
func admissions(t testing.TB) map[string]AdmissionOptions {
	return map[string]AdmissionOptions{
		"nothing":  {},
		"limiter":  {Limiter: &admission.Options{}},
		"overload": {Overload: &admission.OverloadOptions{}},
		"guard":    {Guard: newGuard(t, nil)},
		"clients":  {ClientLimit: 100},
		"all":      {Limiter: &admission.Options{}, ClientLimit: 100, Overload: &admission.OverloadOptions{}, Guard: newGuard(t, nil)},
	}
}

// What admission costs a hit. The ceilings cost nothing: a hit needs none.
func BenchmarkHitWithAdmission(b *testing.B) {
	for _, name := range []string{"nothing", "limiter", "clients", "overload", "guard", "all"} {
		b.Run(name, func(b *testing.B) {
			h, r, w := hitFixtureWith(b, Options{Admission: admissions(b)[name]}, 1024, true)
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}

// The files of a form that was sent are removed, though the handler had a copy of the
// request.
func TestFilesOfAFormAreRemoved(t *testing.T) {
	var name string
	mw, err := New(Options{Hook: func(*trace.Record) {}, Admission: AdmissionOptions{Guard: newGuard(t, nil)}})
	require.NoError(t, err)
	defer func() { require.NoError(t, mw.Close(context.Background())) }()
	srv := httptest.NewServer(mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			panic(err)
		}
		f, err := r.MultipartForm.File["f"][0].Open()
		if err != nil {
			panic(err)
		}
		defer f.Close()
		name = f.(interface{ Name() string }).Name()
	})))
	defer srv.Close()
	var body bytes.Buffer
	mp := multipart.NewWriter(&body)
	part, err := mp.CreateFormFile("f", "f")
	require.NoError(t, err)
	_, _ = io.WriteString(part, strings.Repeat("x", 11<<20))
	require.NoError(t, mp.Close())
	res, err := http.Post(srv.URL, mp.FormDataContentType(), &body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 200, res.StatusCode)
	require.NotEmpty(t, name)
	require.Eventually(t, func() bool {
		_, err := os.Stat(name)
		return errors.Is(err, os.ErrNotExist)
	}, 30*time.Second, time.Millisecond)
}

// nobodysNames is a resolver that counts.
type nobodysNames struct{ asked atomic.Int64 }

func (n *nobodysNames) LookupAddr(context.Context, string) ([]string, error) {
	n.asked.Add(1)
	return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
}

func (n *nobodysNames) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
}

// Requests that are refused use up few of the lookups of those that are admitted, and
// none if it's by what their client alone has used up.
func TestRefusedRequestsLookFewUp(t *testing.T) {
	few := admission.Rate{PerSecond: 0.1, Burst: 2}
	for name, c := range map[string]struct {
		unknown admission.Rate
		peer    func(i int) string
		most    int // lookups
	}{
		"by what all share": {few, func(i int) string { return fmt.Sprint("20.0.", i, ".1") }, 2 + 5},
		"by its own":        {admission.Rate{PerSecond: 100}, func(int) string { return "20.0.0.1" }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				names := &nobodysNames{}
				v := bigsVerifier(t, names)
				s := newSite(t, Options{Admission: AdmissionOptions{Verifier: v, Guard: newGuard(t, func(p *guard.Policy) {
					p.Unknown, p.Address = c.unknown, few
					p.Providers = []guard.Provider{{Name: "big", Rate: p.Global, Classes: []guard.Class{{Name: "search"}}}}
				})}}, public("abc"))
				for i := range 20 {
					want := 429
					if i < 2 {
						want = 200
					}
					require.Equal(t, want, s.get("/", "Peer", c.peer(i), "User-Agent", "bigbot").status)
					settle()
					require.Equal(t, int64(min(i+1, c.most)), names.asked.Load())
				}
				require.Zero(t, v.Stats().Dropped)
			})
		})
	}
}

// bigsVerifier is one of big's crawlers, by name.
func bigsVerifier(t *testing.T, names guard.Resolver) *guard.Verifier {
	v, err := guard.NewVerifier(guard.VerifierOptions{
		Resolver: names,
		Sources: []guard.Source{{
			Identity: guard.Identity{Provider: "big", Class: "search"}, Agents: []string{"bigbot"}, Domains: []string{"big.example"},
		}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Close(context.Background())) })
	return v
}

// bigsCrawler is a resolver that knows all addresses as big's.
type bigsCrawler struct{ addr netip.Addr }

func (b bigsCrawler) LookupAddr(context.Context, string) ([]string, error) {
	return []string{"crawl.big.example."}, nil
}

func (b bigsCrawler) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{b.addr}, nil
}

// Cheap requests of strangers keep the unknown budget near empty, so that a dear one of
// somebody who isn't known yet never fits: a crawler is looked up all the same, and then
// has its own.
func TestCrawlerIsFoundOutDuringAFlood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const peer = "66.249.66.1"
		per := func(n float64) admission.Rate { return admission.Rate{PerSecond: n} }
		g := newGuard(t, func(p *guard.Policy) {
			p.Global, p.Unknown, p.Address = per(2000), admission.Rate{PerSecond: 400, Burst: 100}, per(40)
			p.Providers = []guard.Provider{{Name: "big", Rate: per(800), Classes: []guard.Class{{Name: "search"}}}}
			p.Routes = []guard.Route{{Name: "dear", Cost: 10, Rate: per(300), Unknown: per(100)}}
		})
		v := bigsVerifier(t, bigsCrawler{netip.MustParseAddr(peer)})
		mw, err := New(Options{Admission: AdmissionOptions{Guard: g, Verifier: v}})
		require.NoError(t, err)
		defer func() { require.NoError(t, mw.Close(context.Background())) }()
		cheap, dear := mw.WrapZone("cheap", http.NotFoundHandler()), mw.WrapZone("dear", http.NotFoundHandler())
		ask := func(h http.Handler, peer, agent string) int {
			r, w := request("GET", "/", "Peer", peer, "User-Agent", agent), recorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		var got []int
		for i := range 500 * 6 { // six seconds, the last of them with the crawler
			time.Sleep(2 * time.Millisecond)
			ask(cheap, fmt.Sprintf("198.18.%d.%d", i>>8, i&255), "curl")
			if i >= 500*5 && i%100 == 0 {
				got = append(got, ask(dear, peer, "bigbot"))
			}
		}
		require.Equal(t, []int{429, 404, 404, 404, 404}, got)
		require.Equal(t, guard.VerifierStats{Lookups: 1, Verified: 1, Stored: 1}, v.Stats())
	})
}
