package store

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// What isn't allowed to take its place changes nothing. A Delete that begins while
// it's being allowed comes after it, and leaves nothing of it.
func TestPutIfAndDeleteHaveAnOrder(t *testing.T) {
	primary, variantKey := Key{1}, Key{2}
	for name, o := range map[string]func(body string) *Object{
		"alone": func(body string) *Object { return &Object{Key: primary, Primary: primary, Body: []byte(body)} },
		"variant": func(body string) *Object {
			return &Object{Key: variantKey, Primary: primary, Body: []byte(body), VaryNames: []string{"accept"}}
		},
	} {
		for _, withDisk := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				var opt Options
				if withDisk {
					opt.Disk = &fakeDisk{failAfter: -1, max: 64 << 20}
				}
				s, err := New(opt)
				require.NoError(t, err)
				defer func() { require.NoError(t, s.Close(context.Background())) }()
				old := o("old")
				require.Equal(t, Kept, s.Put(old))
				require.Equal(t, Withdrawn, s.PutIf(o("new"), func(*Object) bool { return false }))
				got, _ := s.Get(old.Key)
				require.Same(t, old, got)

				done, started := make(chan struct{}), false
				require.Equal(t, Kept, s.PutIf(o("new"), func(*Object) bool {
					if !started {
						started = true
						go func() {
							defer close(done)
							s.Delete(primary)
						}()
					}
					return true
				}))
				<-done
				got, _ = s.Get(old.Key)
				require.Nil(t, got)
			})
		}
	}
}
