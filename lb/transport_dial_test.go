package lb

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// Twenty requests wait for one dial to an HTTP/2 origin. If it fails, one of them does,
// and the origin isn't ejected; if it goes on failing, nobody waits for a third.
func TestOneFailedDialFailsOneRequest(t *testing.T) {
	const dialTime = time.Second
	for _, c := range []struct {
		broken, failed, dials int
		longest               time.Duration
		state                 State
	}{
		{1, 1, 2, 2 * dialTime, StateHealthy},
		{2, 20, 2, 2 * dialTime, StateEjected},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := testnet.NewPipeListener()
			s := &http.Server{Handler: saying(200, "ok"), Protocols: new(http.Protocols), ErrorLog: noLog}
			s.Protocols.SetUnencryptedHTTP2(true)
			go s.Serve(l)
			defer s.Close()
			var dials, failed atomic.Int32
			p := plainPool("p", "192.0.2.1:80", "192.0.2.2:80")
			p.Transport.Protocol, p.Ejection = ProtocolHTTP2, Ejection{}
			p.Transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				n := int(dials.Add(1))
				time.Sleep(dialTime)
				if n <= c.broken {
					return nil, errors.New("lost")
				}
				return l.DialContext(ctx, network, address)
			}
			b, err := New(Options{Pools: []Pool{p}})
			require.NoError(t, err)
			start := time.Now()
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if ask(t, b, "POST", "http://shop.test/", "x").err != nil {
						failed.Add(1)
					}
				})
			}
			wg.Wait()
			assert.Equal(t, []int{c.failed, c.dials}, []int{int(failed.Load()), int(dials.Load())})
			assert.Equal(t, c.longest, time.Since(start).Truncate(dialTime))
			assert.Equal(t, c.state, b.Status()[0].Origins[0].State)
			require.NoError(t, b.Close(t.Context()))
			synctest.Wait()
		})
	}
}
