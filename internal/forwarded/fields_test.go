package forwarded

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFieldFindsWhatProxiesAdd(t *testing.T) {
	for name := range fields {
		assert.Equal(t, http.CanonicalHeaderKey(name), name, "or it's never found")
	}
	for name, want := range map[string]string{
		"X-Forwarded-For": "X-Forwarded-For", "X-Forwarded-Anything": "X-Forwarded-Anything",
		"x-real-ip": "X-Real-Ip", "Via": "Via", "CF-Connecting-IP": "Cf-Connecting-Ip",
		"X-Original-Forwarded-For": "X-Original-Forwarded-For", "X-Request-Id": "",
		"User-Agent": "", "Authorization": "", "Connection": "",
	} {
		h := http.Header{"Accept": {"*/*"}}
		h.Set(name, "close, Keep-Alive")
		assert.Equal(t, want, Field(h), name)
	}
	assert.Equal(t, "X-Forwarded-For", Field(http.Header{"Connection": {"close", "x, x-forwarded-for"}}))
}
