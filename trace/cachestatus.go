package trace

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// CacheStatus is one member of the Cache-Status field: how one cache handled
// one request (RFC 9211 §2).
type CacheStatus struct {
	// Hit says that the response came from the cache and the request didn't
	// go forward. It excludes Forward, which is ignored when both are set.
	Hit bool
	// Forward says why the request went forward; ForwardNone when it didn't.
	Forward Forward
	// ForwardStatus is the status code that the next hop answered; left out
	// when 0 or when the request didn't go forward.
	ForwardStatus int
	// TTL is the remaining freshness lifetime in seconds, negative when the
	// response is stale. It is sent only with HasTTL.
	TTL int64
	// HasTTL says that TTL is known.
	HasTTL bool
	// Stored says that the response was stored; left out when the request
	// didn't go forward.
	Stored bool
	// Collapsed says that the request was collapsed with another; left out
	// when the request didn't go forward.
	Collapsed bool
	// Key is the cache key in some readable form; left out when empty.
	Key string
	// Detail is anything else worth saying; left out when empty.
	Detail string
}

// MaxNameLen is the longest cache name that [ValidateName] accepts, in bytes.
const MaxNameLen = 128

// maxSFInteger bounds the integers of structured fields (RFC 9651 §3.3.1).
const maxSFInteger = 999_999_999_999_999

// ValidateName reports why name can't be the name of a cache in Cache-Status.
// A name is printable ASCII, not empty and at most [MaxNameLen] bytes long.
// Call it once, where the name is configured.
func ValidateName(name string) error {
	if name == "" {
		return errors.New("trace: cache name is empty")
	}
	if len(name) > MaxNameLen {
		return fmt.Errorf("trace: cache name is %d bytes long, more than %d", len(name), MaxNameLen)
	}
	for i := range len(name) {
		if !isPrintable(name[i]) {
			return fmt.Errorf("trace: cache name %q has a byte outside printable ASCII at offset %d", name, i)
		}
	}
	return nil
}

// AppendCacheStatus appends s as a member of Cache-Status (RFC 9211 §2), in
// the serialisation of structured fields (RFC 9651 §4.1). Parameters come in
// the order in which the RFC defines them.
//
// The name is written as a token where it is one, else as a string. Key and
// Detail are always strings. Bytes that a string can't hold are written as
// [HeaderValue] does, and over-long strings are cut as it does. Integers
// beyond the format's range are moved to its bounds.
//
// The field is a list to which each cache on the way appends: to add a member
// to an existing value, append ", " first. Nothing is allocated if dst has the
// capacity.
func AppendCacheStatus(dst []byte, name string, s *CacheStatus) []byte {
	if isToken(name) {
		dst = append(dst, name...)
	} else {
		dst = appendSFString(dst, name)
	}
	switch {
	case s.Hit:
		dst = append(dst, ";hit"...)
	case s.Forward > ForwardNone && s.Forward < forwardCount:
		dst = append(append(dst, ";fwd="...), s.Forward.String()...)
		if s.ForwardStatus != 0 {
			dst = appendSFInteger(append(dst, ";fwd-status="...), int64(s.ForwardStatus))
		}
	}
	if s.HasTTL {
		dst = appendSFInteger(append(dst, ";ttl="...), s.TTL)
	}
	if !s.Hit && s.Forward > ForwardNone && s.Forward < forwardCount {
		if s.Stored {
			dst = append(dst, ";stored"...)
		}
		if s.Collapsed {
			dst = append(dst, ";collapsed"...)
		}
	}
	if s.Key != "" {
		dst = appendSFString(append(dst, ";key="...), s.Key)
	}
	if s.Detail != "" {
		dst = appendSFString(append(dst, ";detail="...), s.Detail)
	}
	return dst
}

// CacheStatus returns the record in the terms of RFC 9211, without Key and
// Detail, which are for whoever asked for debugging.
//
// A stale response that stands in for an error is a hit only if the request
// never went forward. A collapsed request always has a reason to go forward:
// ForwardMiss, if the record gives none. The lifetime is known for what came
// from the store or went into it.
func (r *Record) CacheStatus() CacheStatus {
	c := &r.Cache
	s := CacheStatus{
		Forward:       r.ForwardReason,
		ForwardStatus: r.ForwardStatus,
		Stored:        c.Stored,
		Collapsed:     c.Collapsed,
	}
	switch c.Status {
	case Hit, Stale:
		s.Hit = true
	case StaleError:
		s.Hit = r.ForwardReason == ForwardNone
	case Collapsed:
		s.Collapsed = true
		if s.Forward == ForwardNone {
			s.Forward = ForwardMiss
		}
	}
	switch c.Status {
	case Hit, Stale, StaleError, Revalidated:
		s.HasTTL = true
	default:
		s.HasTTL = c.Stored
	}
	if s.Hit {
		s.Forward, s.ForwardStatus, s.Stored, s.Collapsed = ForwardNone, 0, false, false
	}
	if s.HasTTL {
		s.TTL = floorSeconds(c.TTL)
	}
	return s
}

// floorSeconds rounds down, so that half a second past the end is -1 and not 0.
func floorSeconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	if d%time.Second < 0 {
		n--
	}
	return n
}

// appendSFInteger appends an integer (RFC 9651 §4.1.4).
func appendSFInteger(dst []byte, n int64) []byte {
	return strconv.AppendInt(dst, min(max(n, -maxSFInteger), maxSFInteger), 10)
}

// appendSFString appends a string (RFC 9651 §4.1.6), made safe.
func appendSFString(dst []byte, s string) []byte {
	return append(appendSafe(append(dst, '"'), s, true), '"')
}

// isToken reports whether s can be written as a token (RFC 9651 §3.3.4).
func isToken(s string) bool {
	if s == "" || s[0] != '*' && !isAlpha(s[0]) {
		return false
	}
	for i := 1; i < len(s); i++ {
		if !isTokenChar(s[i]) {
			return false
		}
	}
	return true
}

func isAlpha(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// isTokenChar reports whether c may follow the first character of a token: a
// tchar (RFC 9110 §5.6.2), a colon or a slash.
func isTokenChar(c byte) bool {
	if isAlpha(c) || c >= '0' && c <= '9' {
		return true
	}
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~', ':', '/':
		return true
	}
	return false
}
