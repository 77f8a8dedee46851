// Package lb sends requests to origins: which ones, in which order, and whether
// they are well.
//
// # Origins, pools, balancers
//
// An [Origin] is one server. A [Pool] is origins that can stand in for each other,
// and a [Policy] that orders them. A [Balancer] has pools for each host, in order
// of preference. It is an [net/http.RoundTripper]:
//
//	b, err := lb.New(lb.Options{Pools: []lb.Pool{{
//		Name:    "app",
//		Origins: []lb.Origin{{Address: "10.0.0.1"}, {Address: "10.0.0.2"}},
//	}}})
//	proxy := &httputil.ReverseProxy{Transport: b, Rewrite: (*httputil.ProxyRequest).SetXForwarded}
//
// [NewProxy] is a handler around it, or any other transport, that forwards headers
// as a proxy must.
//
// # Who may be sent requests
//
// An origin is eligible if it isn't disabled, in maintenance or drained, if it is
// healthy, not ejected, its circuit lets requests through, and it is warmed up. A
// pool with fewer eligible origins than its minimum is passed over for the host's
// next pool. If no pool has any, requests are sent to sick origins all the same
// (panic mode), since a wrong health check must not become a total outage; what
// the operator took out never gets any.
//
// # Attempts
//
// A policy's order is the order in which origins are tried. An attempt that failed
// is followed by one at the next origin: three at most, if the method is GET,
// HEAD, OPTIONS, TRACE, PUT or DELETE, the body can be sent again, no response
// head was passed on, and the retry budget has room. POST and PATCH are sent once.
// Nothing below repeats anything: what the trail says is what origins saw.
//
// A request counts against its origin's limit until its response's body has
// ended. The place is reserved by the attempt itself, so the limit is never
// exceeded.
//
// # What happened
//
// [WithTrail] gives a request a record of every origin's reason to be used or not,
// of every attempt and of its timings. [Balancer.Status] shows how all are.
//
// # Changes at run time
//
// [Balancer.Update] replaces all options at once. What requests read is immutable;
// counters, health and connections belong to an origin's identity and outlive the
// options. Nothing is dropped.
package lb
