package testnet

import (
	"fmt"
	"io"
	"log"
	"net/http"
)

// Response is an answer that was read to its end.
type Response struct {
	// Status is the status code.
	Status int
	// Header and Trailer are as received.
	Header, Trailer http.Header
	// Body is the whole body.
	Body string
}

// Do sends a request without a body, with the given pairs of header names and
// values, and reads the whole answer. When the body breaks off, it returns both
// what came until then and the error. A pair named Host sets the request's host.
func Do(c *http.Client, method, url string, header ...string) (*Response, error) {
	if len(header)%2 != 0 {
		return nil, fmt.Errorf("testnet: %d header strings are not pairs", len(header))
	}
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(header); i += 2 {
		if http.CanonicalHeaderKey(header[i]) == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return &Response{resp.StatusCode, resp.Header, resp.Trailer, string(body)}, err
}

// quiet returns a logger that drops everything.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
