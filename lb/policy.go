package lb

// Policy says in which order a pool's origins are tried. The zero value means
// [RoundRobin]. Weights count except for RoundRobin and Failover.
type Policy string

// The policies. [Policies] describes them.
const (
	RoundRobin         Policy = "round-robin"
	WeightedRoundRobin Policy = "weighted-round-robin"
	Random             Policy = "random"
	LeastConnections   Policy = "least-connections"
	TwoChoices         Policy = "two-choices"
	Latency            Policy = "latency"
	HashClient         Policy = "hash-client"
	HashPath           Policy = "hash-path"
	HashKey            Policy = "hash-key"
	HashHeader         Policy = "hash-header"
	HashCookie         Policy = "hash-cookie"
	Failover           Policy = "failover"
)

// PolicyInfo describes a policy for people.
type PolicyInfo struct {
	Policy      Policy
	Name        string // the field's name for it
	Description string // how the order comes about
	Cost        string // of finding the first origin, for n of them
	Use         string // when to choose it
}

// policies is the only place where they are described: docs/load-balancing.md is
// made from it.
var policies = []PolicyInfo{
	{
		RoundRobin, "Round robin",
		"One after the other. Weights are refused.",
		"constant",
		"Origins of the same size and requests of about the same cost. The default.",
	}, {
		WeightedRoundRobin, "Smooth weighted round robin",
		"One after the other, each as often as its weight says, spread evenly over the round.",
		"constant",
		"Origins of different sizes and requests of about the same cost.",
	}, {
		Random, "Weighted random",
		"Any, in proportion to its weight, independently of all other requests.",
		"constant",
		"Many proxies in front of the same origins, which in turns could fall into step.",
	}, {
		LeastConnections, "Least connections",
		"The one with the fewest requests in flight for its weight; if several have as few, the one whose turn it is, or one of them drawn in proportion to its weight.",
		"n, constant if an idle one's turn it is",
		"Requests of very different duration, such as downloads and WebSockets, through one or few proxies.",
	}, {
		TwoChoices, "Two random choices",
		"Two different ones drawn in proportion to their weight; of these the one with fewer requests in flight for its weight.",
		"constant",
		"As least connections, but with many origins or many proxies, whose counts don't know of each other.",
	}, {
		Latency, "Latency-aware (peak EWMA)",
		"Two different ones drawn in proportion to their weight; of these the one whose first byte is expected sooner: a moving average of ten seconds that rises at once, times the requests in flight for its weight. A failure counts as a slow answer.",
		"constant",
		"Origins that differ in speed, or slow down at times, such as those of different places.",
	}, {
		HashClient, "Hash of the client's address",
		"Always the same one for a client (an IPv6 client's /64), by rendezvous hashing.",
		"n × weight",
		"Sessions kept in an origin's memory when clients have no cookie. Clients behind one address go to one origin.",
	}, {
		HashPath, "Hash of the path",
		"Always the same one for a path, whatever its query, by rendezvous hashing.",
		"n × weight",
		"Origins that cache or hold a part of the paths each.",
	}, {
		HashKey, "Hash of the cache key",
		"Always the same one for the key given with WithKey, by rendezvous hashing.",
		"n × weight",
		"A second layer of caches: each holds its part of the objects, variants included.",
	}, {
		HashHeader, "Hash of a header field",
		"Always the same one for a value of Pool.HashName, by rendezvous hashing; any if the field is absent.",
		"n × weight",
		"Tenants or shards that are named in a header field.",
	}, {
		HashCookie, "Hash of a cookie",
		"Always the same one for a value of the cookie Pool.HashName, by rendezvous hashing; any if it is absent.",
		"n × weight",
		"Sticky sessions: the session's cookie chooses, no cookie is added.",
	}, {
		Failover, "Failover in fixed order",
		"The first in the order of configuration, as long as it is eligible. Weights are refused.",
		"constant",
		"A standby that should get nothing as long as the first origin works.",
	},
}

// Policies returns all policies in the order of their documentation. The slice is
// the caller's.
func Policies() []PolicyInfo {
	return append([]PolicyInfo(nil), policies...)
}

// hashes reports whether the policy places keys.
func (p Policy) hashes() bool {
	switch p {
	case HashClient, HashPath, HashKey, HashHeader, HashCookie:
		return true
	}
	return false
}

// known reports whether there is such a policy.
func (p Policy) known() bool {
	for _, i := range policies {
		if i.Policy == p {
			return true
		}
	}
	return false
}
