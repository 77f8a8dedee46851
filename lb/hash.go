package lb

import (
	"encoding/binary"

	"github.com/zeebo/blake3"
)

// Rendezvous hashing without floating point. For a key and each origin, as many
// numbers are drawn as the origin has weight, and the origin's score is the
// largest of them; the origins' order is that of their scores. The largest of w
// draws wins in exact proportion to w, and raising w only adds draws, so that only
// keys of the changed origin move.
//
//	digest(s) = the first 8 bytes of BLAKE3(s), little endian
//	draw(k)   = mix(digest(key) XOR (digest(origin ID) + k × 0x9e3779b97f4a7c15)), 0 ≤ k < w
//	mix       = the finalizer of SplitMix64
//
// All is modulo 2⁶⁴. It is a contract between nodes of all versions and
// architectures: docs/load-balancing.md has test vectors.
const golden = 0x9e3779b97f4a7c15

// digest is the first 8 bytes of the BLAKE3 hash of data.
func digest(data []byte) uint64 {
	sum := blake3.Sum256(data)
	return binary.LittleEndian.Uint64(sum[:8])
}

// digestString is digest without an allocation for strings up to 256 bytes.
func digestString(s string) uint64 {
	var buf [256]byte
	return digest(append(buf[:0], s...))
}

// mix is the finalizer of SplitMix64, a permutation of 64 bits.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// score is the largest of w draws.
func score(key, seed uint64, w int) uint64 {
	var top uint64
	for range w {
		top = max(top, mix(key^seed))
		seed += golden
	}
	return top
}
