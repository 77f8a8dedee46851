//go:build !race

package testnet

// Race is whether the race detector is on: the same work takes several times as
// long then, and pools forget some of what they are given.
const Race = false
