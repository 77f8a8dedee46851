package cachekey

import (
	"encoding/hex"
	"fmt"
)

// Key is the identity of a request: the 256-bit BLAKE3 hash of its canonical
// text. The zero Key belongs to no request. Keys are comparable and convert
// freely to and from [32]byte.
type Key [32]byte

// String returns all 64 hexadecimal digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Short returns the first 12 hexadecimal digits: enough to find a request in a
// log, not enough to identify one among hostile input.
func (k Key) Short() string { return hex.EncodeToString(k[:6]) }

// IsZero reports whether k is the zero Key, which belongs to no request.
func (k Key) IsZero() bool { return k == Key{} }

// MarshalText implements [encoding.TextMarshaler] with the form of [Key.String].
func (k Key) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, k[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]; it accepts what
// [ParseKey] accepts.
func (k *Key) UnmarshalText(text []byte) error {
	parsed, err := ParseKey(string(text))
	if err != nil {
		return err
	}
	*k = parsed
	return nil
}

// ParseKey reads the form that [Key.String] writes: 64 hexadecimal digits in
// either case.
func ParseKey(text string) (Key, error) {
	var k Key
	if len(text) != hex.EncodedLen(len(k)) {
		return Key{}, fmt.Errorf("cachekey: a key has %d hexadecimal digits, not %d characters",
			hex.EncodedLen(len(k)), len(text))
	}
	if _, err := hex.Decode(k[:], []byte(text)); err != nil {
		return Key{}, fmt.Errorf("cachekey: not a key: %w", err)
	}
	return k, nil
}
