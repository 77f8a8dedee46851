package storetest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/storetest"
)

func TestMemoryTier(t *testing.T) {
	storetest.TestTier(t, func(t *testing.T) store.Tier {
		tier, err := store.NewMemoryTier(storetest.MaxBytes, storetest.MaxObject)
		require.NoError(t, err)
		return tier
	})
}
