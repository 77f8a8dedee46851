package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhttp/weir/lb"
)

// minMemory is the least that the store takes.
const minMemory = 64 << 10

// minDisk is the least that the disk tier takes.
const minDisk = 1 << 20

type config struct {
	listen string
	memory int64
	debug  bool
	rfc    bool

	origins    origins
	policy     lb.Policy
	hashName   string // of the field or cookie that policy goes by
	healthPath string // "" for no health checks

	disk      string // directory; "" for none
	diskBytes int64
	site      string // "" for what the origins' addresses make of it

	admin      string // address of the purge API; "" for none
	adminToken string
	tagHeader  string
	allowPurge prefixes
	trust      prefixes
}

// origins are what stands behind the proxy; one at least.
type origins []*url.URL

func parseOrigins(texts []string) (o origins, err error) {
	if len(texts) == 0 {
		return nil, errors.New("is required, such as -origin http://127.0.0.1:3000")
	}
	for _, s := range texts {
		u, err := parseOrigin(s)
		if err != nil {
			return nil, err
		}
		if o = append(o, u); o[0].Path != u.Path {
			return nil, fmt.Errorf("%q must have the same path as %q", u, o[0])
		}
	}
	return o, nil
}

func (o origins) String() string {
	texts := make([]string, len(o))
	for i, u := range o {
		texts[i] = u.String()
	}
	return strings.Join(texts, " ")
}

// site is the same for the same origins, in whichever order.
func (o origins) site() string {
	texts := make([]string, len(o))
	for i, u := range o {
		texts[i] = u.Scheme + "://" + strings.ToLower(u.Host) + prefix(u)
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// prefixes is a flag that may be given several times.
type prefixes []netip.Prefix

func (p *prefixes) String() string { return fmt.Sprint([]netip.Prefix(*p)) }

// Set takes a network, or an address for itself alone.
func (p *prefixes) Set(s string) error {
	one, err := netip.ParsePrefix(s)
	if addr, addrErr := netip.ParseAddr(s); addrErr == nil {
		one, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if err != nil {
		return errors.New("is no network; write it like 10.0.0.0/8")
	}
	if one.Addr().Is4In6() { // as peers' addresses are written
		if one.Bits() < 96 {
			return errors.New("is no IPv4 network; write it like 10.0.0.0/8, or ::ffff:10.0.0.0/104")
		}
		one = netip.PrefixFrom(one.Addr().Unmap(), one.Bits()-96)
	}
	*p = append(*p, one.Masked())
	return nil
}

// within returns a network of p that has all addresses of n.
func (p prefixes) within(n netip.Prefix) (netip.Prefix, bool) {
	for _, larger := range p {
		if larger.Bits() <= n.Bits() && larger.Contains(n.Addr()) {
			return larger, true
		}
	}
	return netip.Prefix{}, false
}

// checkPurge refuses networks whose clients could never purge.
func (c *config) checkPurge() error {
	for _, n := range c.allowPurge {
		if proxies, ok := c.trust.within(n); ok {
			return fmt.Errorf("-allow-purge: %v lies within %v of -trust: a proxy's address is nobody's who may purge; "+
				"name the networks that clients come from, make -trust no larger than the proxies, or use -admin", n, proxies)
		}
	}
	return nil
}

// flagTexts are the flags that are read further.
type flagTexts struct {
	origins                   []string
	policy, memory, diskBytes string
}

// newFlags returns the flags, which set c and t.
func newFlags(c *config, t *flagTexts, stderr io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet("reverseproxy", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are printed once, by main
	fs.Usage = func() {
		fs.SetOutput(stderr)
		fmt.Fprintln(stderr, "usage: reverseproxy -origin URL [flags]")
		fs.PrintDefaults()
	}
	fs.StringVar(&c.listen, "listen", "127.0.0.1:8080", "`address` to listen on; port 0 takes a free one")
	fs.Func("origin", "`URL` of the origin, such as http://127.0.0.1:3000 (required); may be repeated for several", func(s string) error {
		t.origins = append(t.origins, s)
		return nil
	})
	fs.StringVar(&t.policy, "policy", string(lb.RoundRobin), "in which order several origins are tried: a `name` such as "+policyNames()+"; hash-header and hash-cookie need the field's name, as in hash-cookie:session")
	fs.StringVar(&c.healthPath, "health-path", "", "`path`, below that of -origin, that the origins are asked for every few seconds; those that don't answer well get no visitors (no checks by default)")
	fs.StringVar(&t.memory, "memory", "32MiB", "`size` of the memory for stored responses, such as 512MiB or 2GiB")
	fs.BoolVar(&c.debug, "debug", false, "explain every answer in header fields; not for public listeners, they show the cache keys")
	fs.BoolVar(&c.rfc, "rfc", false, "follow the letter of RFC 9111 instead of the safe rules")
	fs.StringVar(&c.disk, "disk", "", "`directory` for responses that are too large for memory, and for a copy of the others that outlives a restart; what is there is purged by a start with another set of -origin (but see -site), another -rfc, -tag-header or -trust")
	fs.StringVar(&c.site, "site", "", "`name` of the site that the origins serve: with the same one, what is in -disk stays whichever -origin there are, and with another it's purged (none by default: another origin is another site)")
	fs.StringVar(&t.diskBytes, "disk-bytes", "10GiB", "`size` of what the files in -disk may take")
	fs.StringVar(&c.admin, "admin", "", "`address` of a second listener with the purge API; needs -admin-token")
	fs.StringVar(&c.adminToken, "admin-token", "", "bearer `token` that the purge API asks for")
	fs.StringVar(&c.tagHeader, "tag-header", "", "`name` of the response header field that carries tags, such as Surrogate-Key")
	fs.Var(&c.allowPurge, "allow-purge", "`network` whose clients may use the PURGE method on the main listener, such as 10.0.0.0/8; not a proxy's, which would let all its visitors in: forwarded requests count as their client's with -trust and are refused without; may be repeated (none by default)")
	fs.Var(&c.trust, "trust", "`network` of proxies in front of this one, such as 10.0.0.0/8, whose X-Forwarded fields are believed; may be repeated (none by default)")
	return fs
}

// givenFlags returns which flags were given, and refuses empty ones: an unset variable
// of a shell, most likely.
func givenFlags(fs *flag.FlagSet) (map[string]bool, error) {
	given := map[string]bool{}
	var empty []string
	fs.Visit(func(f *flag.Flag) {
		given[f.Name] = true
		if f.Name != "origin" && f.Value.String() == "" {
			empty = append(empty, "-"+f.Name)
		}
	})
	if len(empty) > 0 {
		return nil, fmt.Errorf("%s: is given, but empty; leave it out, or say what it is", strings.Join(empty, ", "))
	}
	return given, nil
}

func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	var t flagTexts
	fs := newFlags(&c, &t, stderr)
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return c, err
	} else if err != nil {
		return c, fmt.Errorf("%w (-h lists the flags)", err)
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	given, err := givenFlags(fs)
	if err != nil {
		return c, err
	}
	if strings.ContainsFunc(c.adminToken, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return c, errors.New("-admin-token: must be visible ASCII characters without spaces; no client could send it otherwise")
	}
	if c.origins, err = parseOrigins(t.origins); err != nil {
		return c, fmt.Errorf("-origin: %w", err)
	}
	name, hashName, colon := strings.Cut(t.policy, ":")
	c.policy, c.hashName = lb.Policy(name), hashName
	if !slices.ContainsFunc(lb.Policies(), func(p lb.PolicyInfo) bool { return p.Policy == c.policy }) {
		return c, fmt.Errorf("-policy: %q is none; take one of %s", name, policyNames())
	}
	if colon && hashName == "" {
		return c, fmt.Errorf("-policy: %q has no name behind the colon; write one, or leave the colon out", t.policy)
	}
	if c.memory, err = parseSize(t.memory); err != nil {
		return c, fmt.Errorf("-memory: %w", err)
	} else if c.memory < minMemory {
		return c, fmt.Errorf("-memory: %q is too little; the least is 64KiB", t.memory)
	}
	if given["disk-bytes"] && c.disk == "" {
		return c, errors.New("-disk-bytes: needs -disk, the directory it is for")
	}
	if c.site != "" && c.disk == "" {
		return c, errors.New("-site: needs -disk, where it says whose responses are there")
	}
	if err := c.checkPurge(); err != nil {
		return c, err
	}
	if c.diskBytes, err = parseSize(t.diskBytes); err != nil {
		return c, fmt.Errorf("-disk-bytes: %w", err)
	} else if c.diskBytes < minDisk {
		return c, fmt.Errorf("-disk-bytes: %q is too little; the least is 1MiB", t.diskBytes)
	}
	if c.admin != "" && c.adminToken == "" {
		return c, errors.New("-admin: needs -admin-token: without one, nobody could use it")
	}
	if c.adminToken != "" && c.admin == "" {
		return c, errors.New("-admin-token: needs -admin, the address it is for")
	}
	return c, nil
}

// parseOrigin accepts a URL, or host:port for http.
func parseOrigin(s string) (*url.URL, error) {
	if s == "" {
		return nil, errors.New("is required, such as -origin http://127.0.0.1:3000")
	}
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the scheme of %q must be http or https", s)
	case u.Host == "":
		return nil, fmt.Errorf("%q has no host", s)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, fmt.Errorf("%q must be only scheme, host and perhaps a path", s)
	}
	return u, nil
}

func policyNames() string {
	var names []string
	for _, p := range lb.Policies() {
		names = append(names, string(p.Policy))
	}
	return strings.Join(names, ", ")
}

// parseSize reads a number of bytes with an optional unit.
func parseSize(s string) (int64, error) {
	upper := strings.ToUpper(strings.TrimSpace(s))
	number := strings.TrimRight(upper, "KMGIB")
	var shift uint
	switch upper[len(number):] {
	case "", "B":
	case "K", "KB", "KIB":
		shift = 10
	case "M", "MB", "MIB":
		shift = 20
	case "G", "GB", "GIB":
		shift = 30
	default:
		return 0, fmt.Errorf("%q is no size; write it like 64MiB", s)
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > (1<<62)>>shift {
		return 0, fmt.Errorf("%q is no size; write it like 64MiB", s)
	}
	return n << shift, nil
}
