package middleware

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// copied notes with which heads a server takes a copy of the header.
type copied struct {
	*httptest.ResponseRecorder
	seen []string
}

func (w *copied) WriteHeader(status int) {
	_, ok := w.Header()["Content-Length"]
	w.seen = append(w.seen, fmt.Sprint(status, " ", ok))
	if status >= 200 {
		w.ResponseRecorder.WriteHeader(status)
	}
}

// The header is changed after an interim response, so that the server must have a copy
// of its own.
func TestServerCopiesInterimHeaders(t *testing.T) {
	for _, method := range []string{"GET", "POST", "HEAD"} {
		mw, err := New(Options{})
		require.NoError(t, err)
		w := &copied{ResponseRecorder: httptest.NewRecorder()}
		mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</a.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNoContent)
		})).ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		require.Equal(t, []string{"103 true", "204 false"}, w.seen, method)
		require.NoError(t, mw.Close(context.Background()))
	}
}
