package middleware

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A handler that answers while the body still comes (full duplex) reads on for as long
// as it likes.
func TestSlowBodyBesideTheAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer time.Sleep(time.Second)
		got := make(chan string, 1)
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			if err := rc.EnableFullDuplex(); err != nil {
				panic(err)
			}
			w.WriteHeader(200)
			_ = rc.Flush()
			time.Sleep(10 * time.Second)
			b, err := io.ReadAll(r.Body)
			got <- fmt.Sprint(string(b), err)
		}))
		conn, err := dialRig(r)
		require.NoError(t, err)
		defer conn.Close()
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
		require.NoError(t, err)
		for _, b := range []byte("abcde") {
			time.Sleep(4 * time.Second)
			_, err = conn.Write([]byte{b})
			require.NoError(t, err)
		}
		require.Equal(t, "abcde<nil>", <-got)
	})
}
