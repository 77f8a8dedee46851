package lb

import (
	"testing"

	"github.com/weirhttp/weir/internal/testnet"
)

func TestMain(m *testing.M) { testnet.MainCheck(m) }
