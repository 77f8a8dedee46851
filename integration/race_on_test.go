//go:build race

package integration

// raceEnabled has the proxy built with the race detector too.
const raceEnabled = true
