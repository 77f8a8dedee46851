package guard

// maxAgentBytes is how much of a user agent is looked at.
const maxAgentBytes = 512

// agents finds the sources whose names appear in a user agent.
type agents struct {
	by  [256][]agent // by first byte
	all sources      // those that ask for no name
}

type agent struct {
	name string // in lower case
	of   sources
}

func newAgents(bySource [][]string) *agents {
	a := &agents{}
	for i, names := range bySource {
		if len(names) == 0 {
			a.all |= 1 << i
		}
		for _, n := range names {
			n = lowerASCII(n)
			a.by[n[0]] = append(a.by[n[0]], agent{n, 1 << i})
		}
	}
	return a
}

// named returns the sources that are named in a user agent, in any case.
func (a *agents) named(userAgent string) sources {
	var out sources
	s := userAgent[:min(len(userAgent), maxAgentBytes)]
	for i := 0; i < len(s); i++ {
		for _, n := range a.by[lower(s[i])] {
			if out&n.of != n.of && hasPrefixFold(s[i:], n.name) {
				out |= n.of
			}
		}
	}
	return out
}

// hasPrefixFold reports whether s begins with a name, which is in lower case.
func hasPrefixFold(s, name string) bool {
	if len(s) < len(name) {
		return false
	}
	for i := 0; i < len(name); i++ {
		if lower(s[i]) != name[i] {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		b[i] = lower(c)
	}
	return string(b)
}
