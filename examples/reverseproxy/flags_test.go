package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	c, err := parse([]string{"-origin", "127.0.0.1:3000"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.listen != "127.0.0.1:8080" || c.origins.String() != "http://127.0.0.1:3000" || c.memory != 32<<20 || c.debug || c.rfc {
		t.Errorf("the defaults are %+v with origin %s", c, c.origins)
	}
	c, err = parse([]string{"-listen", ":0", "-origin", "https://shop.test/base", "-memory", "2GiB", "-debug", "-rfc"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.listen != ":0" || c.origins.String() != "https://shop.test/base" || c.memory != 2<<30 || !c.debug || !c.rfc {
		t.Errorf("got %+v with origin %s", c, c.origins)
	}
}

// Whoever mistypes a flag reads which one it is, what is wrong with it, and
// what would be right.
func TestParseErrors(t *testing.T) {
	const origin = "-origin=http://127.0.0.1:3000"
	tests := []struct {
		args []string
		want string
	}{
		{nil, "-origin: is required, such as -origin http://127.0.0.1:3000"},
		{[]string{"-origin", ""}, "-origin: is required"},
		{[]string{origin, "-origin", "http://127.0.0.1:3001/shop"}, `-origin: "http://127.0.0.1:3001/shop" must have the same path as "http://127.0.0.1:3000"`},
		{[]string{"-origin", "ftp://127.0.0.1"}, `-origin: the scheme of "ftp://127.0.0.1" must be http or https`},
		{[]string{"-origin", "/srv/www"}, `-origin: "http:///srv/www" has no host`},
		{[]string{"-origin", "http://"}, `-origin: "http://" has no host`},
		{[]string{"-origin", "127.0.0.1:port"}, `-origin: parse "http://127.0.0.1:port": invalid port ":port"`},
		{[]string{"-origin", "http://a/?q=1"}, `-origin: "http://a/?q=1" must be only scheme, host and perhaps a path`},
		{[]string{"-origin", "http://a/#top"}, "must be only scheme, host and perhaps a path"},
		{[]string{"-origin", "http://user:pw@a/"}, "must be only scheme, host and perhaps a path"},
		{[]string{origin, "-memory", "lots"}, `-memory: "lots" is no size; write it like 64MiB`},
		{[]string{origin, "-memory", "0"}, `-memory: "0" is no size`},
		{[]string{origin, "-memory", "-1MiB"}, `-memory: "-1MiB" is no size`},
		{[]string{origin, "-memory", "1.5GiB"}, `-memory: "1.5GiB" is no size`},
		{[]string{origin, "-memory", "9999999999GiB"}, `-memory: "9999999999GiB" is no size`},
		{[]string{origin, "http://127.0.0.1:3000"}, `unexpected argument "http://127.0.0.1:3000"`},
		{[]string{origin, "-disk", ""}, "-disk: is given, but empty"},
		{[]string{origin, "-listen", ""}, "-listen: is given, but empty"},
		{[]string{origin, "-admin=", "-admin-token="}, "-admin, -admin-token: is given, but empty"},
		{[]string{origin, "-health-path", ""}, "-health-path: is given, but empty"},
		{[]string{origin, "-tag-header", ""}, "-tag-header: is given, but empty"},
		{[]string{origin, "-admin", "a:1", "-admin-token", " secret"}, "-admin-token: must be visible ASCII"},
		{[]string{origin, "-admin", "a:1", "-admin-token", "s\n"}, "-admin-token: must be visible ASCII"},
		{[]string{origin, "-port", "80"}, "flag provided but not defined: -port"},
		{[]string{origin, "-debug=maybe"}, `invalid boolean value "maybe" for -debug`},
		{[]string{origin, "-disk-bytes", "1GiB"}, "-disk-bytes: needs -disk"},
		{[]string{origin, "-disk", "d", "-disk-bytes", "1KiB"}, `-disk-bytes: "1KiB" is too little`},
		{[]string{origin, "-disk", "d", "-disk-bytes", "much"}, `-disk-bytes: "much" is no size`},
		{[]string{origin, "-admin", "127.0.0.1:0"}, "-admin: needs -admin-token"},
		{[]string{origin, "-admin-token", "x"}, "-admin-token: needs -admin"},
		{[]string{origin, "-allow-purge", "everyone"}, "is no network; write it like 10.0.0.0/8"},
		{[]string{origin, "-policy", "round-robin:"}, `-policy: "round-robin:" has no name behind the colon`},
		{[]string{origin, "-policy", "hash-cookie:"}, `-policy: "hash-cookie:" has no name behind the colon`},
		{[]string{origin, "-trust", "::ffff:10.0.0.0/8"}, `for flag -trust: is no IPv4 network`},
		{[]string{origin, "-trust", "127.0.0.0/8", "-allow-purge", "127.0.0.1"}, "-allow-purge: 127.0.0.1/32 lies within 127.0.0.0/8 of -trust"},
		{[]string{origin, "-allow-purge", "10.0.0.0/8", "-trust", "192.0.2.1", "-trust", "::ffff:10.0.0.0/103"}, "-allow-purge: 10.0.0.0/8 lies within 10.0.0.0/7 of -trust"},
		{[]string{origin, "-site", "shop"}, "-site: needs -disk"},
		{[]string{origin, "-policy", "best"}, `-policy: "best" is none; take one of round-robin, `},
		{[]string{origin, "-trust", "me"}, "is no network; write it like 10.0.0.0/8"},
		{[]string{"-origin"}, "flag needs an argument: -origin"},
	}
	for _, tt := range tests {
		_, err := parse(tt.args, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.args, err, tt.want)
		}
	}
}

// Networks that only overlap may have clients in them.
func TestAllowPurgeBesideTrust(t *testing.T) {
	if _, err := parse([]string{"-origin", "a", "-trust", "10.0.0.1", "-trust", "fd00::/8", "-allow-purge", "10.0.0.0/8"}, io.Discard); err != nil {
		t.Error(err)
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	var usage bytes.Buffer
	if _, err := parse([]string{"-h"}, &usage); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"-listen address", "-origin URL", "-policy name", "-health-path path", "-memory size", "-debug", "-rfc", "-disk directory", "-disk-bytes size", "-site name", "-admin address", "-admin-token token", "-tag-header name", "-allow-purge network", "-trust network"} {
		if !strings.Contains(usage.String(), name) {
			t.Errorf("no %q in\n%s", name, usage.String())
		}
	}
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{
		"1": 1, "512": 512, "512B": 512, "4k": 4 << 10, "4KB": 4 << 10, "4KiB": 4 << 10,
		"64M": 64 << 20, "64mib": 64 << 20, " 64MiB ": 64 << 20, "2G": 2 << 30, "2GB": 2 << 30,
	} {
		if n, err := parseSize(s); err != nil || n != want {
			t.Errorf("%q: %d, %v, want %d", s, n, err, want)
		}
	}
	for _, s := range []string{"", "M", "MiB", "1T", "1MM", "1KM", "0x10", "1e3", "-1", "1 2M", "9223372036854775808"} {
		if n, err := parseSize(s); err == nil {
			t.Errorf("%q: %d, want an error", s, n)
		}
	}
}
