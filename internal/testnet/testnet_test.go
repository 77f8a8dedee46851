package testnet

import "testing"

// The package's own tests are the first to be held to its check.
func TestMain(m *testing.M) { MainCheck(m) }
