package guard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weirhttp/weir/admission"
)

// The defaults of [VerifierOptions].
const (
	DefaultLookups          = 8
	DefaultLookupsPerSecond = 50
	DefaultLookupQueue      = 256
	DefaultLookupTimeout    = 3 * time.Second
	DefaultVerifiedFor      = 6 * time.Hour
	DefaultDeniedFor        = 10 * time.Minute
	DefaultFailedFor        = 30 * time.Second
	DefaultVerdicts         = 65536
)

// Source is how traffic of an identity is recognised: by the addresses it comes
// from, or by their names in the DNS, or by either.
type Source struct {
	Identity Identity
	// Prefixes are ranges of the provider's addresses. An address in one is enough.
	Prefixes []netip.Prefix
	// Domains are names, such as "googlebot.com", under which the provider's
	// addresses have theirs, in both directions: forward-confirmed reverse DNS.
	// They need Agents, so that not each address in the world is looked up.
	Domains []string
	// Agents are parts of a user agent, in any case, such as "googlebot": the
	// source is considered only for requests that name one. They never verify
	// anything. Without any, all requests from Prefixes are the source's.
	Agents []string
}

// VerifierOptions configures a [Verifier].
type VerifierOptions struct {
	// Sources are what it recognises, up to 64. If a request is verified as of
	// several, the first counts.
	Sources []Source
	// Resolver is used for Domains. Nil means [net.DefaultResolver].
	Resolver Resolver
	// Lookups is how many addresses are looked up at once, up to 1,024. 0 means
	// [DefaultLookups].
	Lookups int
	// LookupsPerSecond bounds how many are begun, with a burst of two seconds; a
	// fiftieth of that, at least one a second, for each network: a /24 of IPv4, a
	// /48 of IPv6. Up to a tenth of them may be for requests that were refused
	// ([Verifier.Refused]), one in ten seconds for each network, and while no more than
	// half of LookupQueue waits. Up to 10,000. 0 means [DefaultLookupsPerSecond].
	LookupsPerSecond int
	// LookupQueue is how many addresses may wait, up to 65,536. 0 means
	// [DefaultLookupQueue].
	LookupQueue int
	// LookupTimeout bounds the lookups of one address together. 0 means
	// [DefaultLookupTimeout].
	LookupTimeout time.Duration
	// VerifiedFor is how long a verified address stays so, DeniedFor how long one
	// that isn't, FailedFor how long to wait after a lookup that failed; up to a
	// week. An address that was verified is looked up again after three quarters
	// of the time. 0 means [DefaultVerifiedFor], [DefaultDeniedFor] and
	// [DefaultFailedFor].
	VerifiedFor, DeniedFor, FailedFor time.Duration
	// Verdicts is how many addresses are remembered of those verified, and as many
	// of the others, up to 1,048,576 at about 200 bytes each. 0 means
	// [DefaultVerdicts].
	Verdicts int
}

// fill sets what isn't set.
func fill[T int | time.Duration](v *T, to T) {
	if *v == 0 {
		*v = to
	}
}

// resolve fills in the defaults, or reports all problems at once.
func (o *VerifierOptions) resolve() error {
	var c checker
	fill(&o.Lookups, DefaultLookups)
	fill(&o.LookupsPerSecond, DefaultLookupsPerSecond)
	fill(&o.LookupQueue, DefaultLookupQueue)
	fill(&o.Verdicts, DefaultVerdicts)
	fill(&o.LookupTimeout, DefaultLookupTimeout)
	fill(&o.VerifiedFor, DefaultVerifiedFor)
	fill(&o.DeniedFor, DefaultDeniedFor)
	fill(&o.FailedFor, DefaultFailedFor)
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	c.between("Lookups", o.Lookups, 1, 1024, "leave it 0 for 8")
	c.between("LookupsPerSecond", o.LookupsPerSecond, 1, 10_000, "leave it 0 for 50")
	c.between("LookupQueue", o.LookupQueue, 1, 65536, "leave it 0 for 256")
	c.between("Verdicts", o.Verdicts, 1, 1<<20, "leave it 0 for 65536")
	c.span("LookupTimeout", o.LookupTimeout, time.Minute, "3s")
	c.span("VerifiedFor", o.VerifiedFor, 7*24*time.Hour, "6h")
	c.span("DeniedFor", o.DeniedFor, 7*24*time.Hour, "10m")
	c.span("FailedFor", o.FailedFor, 7*24*time.Hour, "30s")
	return errors.Join(errors.Join(c...), checkSources(o.Sources))
}

func (c *checker) span(field string, d, most time.Duration, otherwise string) {
	if d < time.Millisecond || d > most {
		c.bad(field, d, fmt.Sprintf("must be between 1ms and %v; leave it 0 for %s", most, otherwise))
	}
}

// checkSources reports all that is wrong with sources.
func checkSources(list []Source) error {
	var c checker
	if len(list) > 64 {
		c.bad("Sources", len(list), "must be 64 at most; put those of one class into one")
	}
	domains := map[string]bool{}
	for i, s := range list {
		at := fmt.Sprintf("Sources[%d].", i)
		c.name(at+"Identity.Provider", s.Identity.Provider, map[string]bool{})
		c.name(at+"Identity.Class", s.Identity.Class, map[string]bool{})
		if len(s.Prefixes) == 0 && len(s.Domains) == 0 {
			c.bad(at+"Prefixes", s.Prefixes, "are missing, and Domains too: a user agent alone identifies nobody; give one of them")
		}
		if len(s.Domains) > 0 && len(s.Agents) == 0 {
			c.bad(at+"Agents", s.Agents, "are missing: with Domains alone each client's address would be looked up; say which user agents claim to be this")
		}
		for j, p := range s.Prefixes {
			if !p.IsValid() || p.Bits() == 0 || p.Addr().Is4In6() && p.Bits() <= 96 {
				c.bad(fmt.Sprintf("%sPrefixes[%d]", at, j), p, "is no prefix, or holds all addresses; write one with netip.ParsePrefix")
			}
		}
		for j, d := range s.Domains {
			if name, ok := hostName(d); !ok || strings.HasPrefix(d, ".") || strings.Count(name, ".") == 0 {
				c.bad(fmt.Sprintf("%sDomains[%d]", at, j), d, `must be a domain of two labels or more, such as "googlebot.com"; write one of the provider's own`)
			} else {
				domains[name] = true
			}
		}
		for j, a := range s.Agents {
			if len(a) < 3 || len(a) > maxAgentBytes {
				c.bad(fmt.Sprintf("%sAgents[%d]", at, j), a, "must have from 3 to 512 bytes; write a part of the user agent that only it has")
			}
		}
	}
	if len(domains) > 64 {
		c.bad("Sources", len(domains), "name more than 64 different Domains; leave some out")
	}
	return errors.Join(c...)
}

// recognition is what sources were made into. It doesn't change.
type recognition struct {
	identities []Identity
	ranges     ranges
	agents     *agents
	domains    []string  // without doubles
	below      []sources // by source: its domains, by index
	byName     sources   // the sources that have domains
}

// recognise makes valid sources ready. Domains that had before has keep their
// index, so that verdicts stay right.
func recognise(list []Source) *recognition {
	r := &recognition{}
	var prefixes [][]netip.Prefix
	var names [][]string
	for _, s := range list {
		for _, d := range s.Domains {
			if d, _ = hostName(d); !slices.Contains(r.domains, d) {
				r.domains = append(r.domains, d)
			}
		}
	}
	slices.Sort(r.domains)
	for i, s := range list {
		r.identities = append(r.identities, s.Identity)
		prefixes = append(prefixes, s.Prefixes)
		names = append(names, s.Agents)
		var below sources
		for _, d := range s.Domains {
			d, _ = hostName(d)
			below |= 1 << slices.Index(r.domains, d)
		}
		if below != 0 {
			r.byName |= 1 << i
		}
		r.below = append(r.below, below)
	}
	r.ranges, r.agents = newRanges(prefixes), newAgents(names)
	return r
}

// The budget of refused requests' lookups.
const (
	refusedPart     = 10  // one in so many of all
	refusedNetwork  = 0.1 // a second, of one network
	refusedNetworks = 1 << 14
)

// newBudgets makes the budgets of lookups, by network: those of admitted requests and
// those of refused ones.
func (o *VerifierOptions) newBudgets(set *admission.Buckets) (admitted, refused *admission.Addresses, err error) {
	perSecond := float64(o.LookupsPerSecond)
	all, err := set.Bucket(admission.Rate{PerSecond: perSecond}, nil)
	if err != nil {
		return nil, nil, err
	}
	part, err := set.Bucket(admission.Rate{PerSecond: perSecond / refusedPart, Burst: max(1, perSecond/refusedPart)}, all)
	if err != nil {
		return nil, nil, err
	}
	if admitted, err = set.Addresses(admission.Rate{PerSecond: max(1, perSecond/50)}, 0, all); err != nil {
		return nil, nil, err
	}
	refused, err = set.Addresses(admission.Rate{PerSecond: min(refusedNetwork, perSecond/refusedPart), Burst: 1}, refusedNetworks, part)
	return admitted, refused, err
}
