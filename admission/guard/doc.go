// Package guard bounds what a client may do by who it is: known, like a search
// engine's crawler that was verified, or unknown, like everybody else.
//
// # Budgets
//
// A [Policy] names rates. [Guard.Admit] debits one request from all budgets that
// concern it, or from none:
//
//	known    the class's, its provider's, the global one, the route's
//	unknown  the address's, that of all unknown clients, the global one, the route's
//
// The classes of a provider share its ceiling. The budget of an address is that of
// its /64 network for IPv6, and the number of addresses that are told apart is
// bounded: when they run out, new ones share a budget. A route has a cost, which is
// what one request takes from each budget.
//
// # Operations
//
// What is expensive inside a handler is admitted by itself:
//
//	err := guard.Do(ctx, "search", func(ctx context.Context) error { ... })
//
// It counts against the request whose context it is given ([Guard.WithRequest]): how
// many operations that has started, and how old it is. It also counts against how
// many run at once, and against the rates. Nothing ever waits.
//
// # Policies
//
// [ParsePolicy] reads JSON. What contradicts itself is refused as a whole, with all
// that is wrong in it. [Guard.Replace] swaps policies; what was used stays used. A
// policy ends at a set time: then nobody is known any more, until a newer one comes.
//
// # Identity
//
// An [Identity] comes from a [Verifier] or the application, never from what a
// client says about itself. A [Verifier] knows providers' address ranges, and looks
// up names in the background: forward-confirmed reverse DNS. Until that is done the
// client is unknown. [ClientAddr] finds the client's address behind trusted proxies.
package guard
