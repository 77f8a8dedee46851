// Package forwarded reads what proxies say about a request's client: the lines of
// X-Forwarded-For, and Forwarded (RFC 7239).
//
// Both are lists to which each proxy appends, so only their right end can be
// believed, and of that only what trusted proxies wrote. All that is further left
// may come from anyone. So everything here is read from the right, and reading ends
// at the first thing that isn't plain. It is pure and doesn't allocate, unless it
// has to undo quoting.
package forwarded
