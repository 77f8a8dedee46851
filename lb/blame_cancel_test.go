package lb

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Who goes away after the whole upload, while the origin works, isn't the origin's fault.
func TestClientThatLeavesAfterItsUploadBlamesNobody(t *testing.T) {
	for _, protocol := range []Protocol{ProtocolHTTP1, ProtocolHTTP2} {
		ctx, cancel := context.WithCancel(background)
		addr := originOver(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			r.Body.Read(make([]byte, 10))
			r.Body.Read(make([]byte, 10)) // its end
			cancel()
			<-r.Context().Done()
		})
		tr := transportTo(t, addr, TransportOptions{Scheme: "http", Protocol: protocol})
		err := send(tr, newRequest(t, "POST", "hello").WithContext(ctx), false).err
		assert.Equal(t, FailureCanceled, FailureOf(err), "%v", err)
	}
}
