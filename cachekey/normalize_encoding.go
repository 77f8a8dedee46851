package cachekey

import "slices"

// maxCodings bounds the codings of one AcceptEncoding.
const maxCodings = 8

// noCoding is keyed and sent if a request accepts neither a listed coding nor the
// identity.
const noCoding = "identity;q=0"

// AcceptEncoding reduces Accept-Encoding to one content coding: the first of the
// given ones that the request accepts, else "identity". Without arguments they
// are br, gzip and zstd. Weights only matter where they are zero (RFC 9110
// §12.5.3): "gzip;q=0" refuses gzip whatever else the field says, "*" stands for
// all codings not named, "x-gzip" is gzip, and "x-gzip2" is nothing. An absent
// field is taken as "identity", which every client can read. A request that
// refuses all of them, the identity too, is kept apart as "identity;q=0".
//
// List what the origin produces: a coding that it never uses only splits the
// cache.
func AcceptEncoding(codings ...string) Normalizer {
	if len(codings) == 0 {
		codings = []string{"br", "gzip", "zstd"}
	}
	codings = slices.Clone(codings)
	if len(codings) > maxCodings {
		return invalidNormalizer(codings, "at most 8 codings")
	}
	for i, coding := range codings {
		codings[i] = lowerASCII(coding)
		if !isToken(coding) || coding == "*" || codings[i] == "x-gzip" {
			return invalidNormalizer(coding, "not a content coding: use br, gzip, zstd, deflate or identity")
		}
		if slices.Contains(codings[:i], codings[i]) {
			return invalidNormalizer(coding, "the coding is listed twice")
		}
	}
	switch i := slices.Index(codings, "identity"); {
	case i < 0:
		codings = append(codings, "identity")
	case i < len(codings)-1:
		return invalidNormalizer(codings, "identity is what is left when nothing else is accepted: list it last or not at all")
	}
	return Normalizer{Value: func(lines []string) string { return pickCoding(codings, lines) }}
}

// acceptance is what a field says on one coding.
type acceptance uint8

const (
	unnamed acceptance = iota
	accepted
	refused
)

// and joins two statements on one coding: a refusal holds.
func (a acceptance) and(quality int) acceptance {
	if quality == 0 || a == refused {
		return refused
	}
	return accepted
}

// pickCoding returns the first of the codings that the field accepts. Identity is
// among the codings.
func pickCoding(codings, lines []string) string {
	var named [maxCodings + 1]acceptance
	var star acceptance
	for _, line := range lines {
		for at := 0; at <= len(line); {
			var e element
			e, at = elementAt(line, at)
			if e.name == "*" {
				star = star.and(e.quality)
				continue
			}
			if equalFoldASCII(e.name, "x-gzip") {
				e.name = "gzip"
			}
			for i, coding := range codings {
				if equalFoldASCII(e.name, coding) {
					named[i] = named[i].and(e.quality)
				}
			}
		}
	}
	for i, coding := range codings {
		switch {
		case named[i] == accepted,
			named[i] == unnamed && star == accepted,
			// Not naming the identity accepts it, unless "*;q=0" does.
			named[i] == unnamed && star == unnamed && coding == "identity":
			return coding
		}
	}
	return noCoding
}
