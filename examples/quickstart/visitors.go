package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/weirhttp/weir/trace"
)

// visitTimeout bounds a visit, so that a fault can't hold up the show for ever.
const visitTimeout = 20 * time.Second

// visit is what one visitor saw. Its times count from the moment at which all
// visitors of the crowd set out.
type visit struct {
	status    string // weir's word for the answer
	reason    string // weir's sentence
	session   string // of the cookie set
	body      string
	firstByte time.Duration // of the body
	done      time.Duration
	err       error
}

// crowd sends n visitors at the same time, each with the given pairs of header
// names and values. The error tells of those who didn't get the page.
func (s *stage) crowd(ctx context.Context, n int, url string, header ...string) ([]visit, error) {
	return s.crowdOf(ctx, n, func(int) string { return url }, header...)
}

// crowdOf is crowd with a URL for each visitor.
func (s *stage) crowdOf(ctx context.Context, n int, url func(i int) string, header ...string) ([]visit, error) {
	ctx, cancel := context.WithTimeout(ctx, visitTimeout)
	defer cancel()
	visits := make([]visit, n)
	start := make(chan time.Time)
	var ready, all sync.WaitGroup
	ready.Add(n)
	for i := range visits {
		all.Go(func() {
			ready.Done()
			visits[i] = s.visit(ctx, url(i), header, <-start)
		})
	}
	ready.Wait()
	now := time.Now()
	for range n {
		start <- now
	}
	all.Wait()
	var failed int
	var first error
	for i := range visits {
		if err := visits[i].err; err != nil {
			failed++
			first = cmp.Or(first, err)
		}
	}
	if failed > 0 {
		return visits, fmt.Errorf("%d of %d visitors didn't get the page: %w", failed, n, first)
	}
	return visits, nil
}

func (s *stage) visit(ctx context.Context, url string, header []string, start time.Time) (v visit) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return visit{err: err}
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return visit{err: err}
	}
	defer resp.Body.Close()
	v.status = resp.Header.Get(trace.DefaultStatusHeader)
	v.reason = resp.Header.Get(trace.HeaderCacheReason)
	for _, c := range resp.Cookies() {
		if c.Name == "session" {
			v.session = c.Value
		}
	}
	var first [1]byte
	if _, v.err = io.ReadFull(resp.Body, first[:]); v.err != nil {
		return v
	}
	v.firstByte = time.Since(start)
	rest, err := io.ReadAll(resp.Body)
	v.body, v.err, v.done = string(first[:])+string(rest), err, time.Since(start)
	if v.err == nil && resp.StatusCode != http.StatusOK {
		v.err = fmt.Errorf("%s %s", url, resp.Status)
	}
	return v
}

// slowest returns when the last visitor had the whole page.
func slowest(visits []visit) time.Duration {
	var d time.Duration
	for i := range visits {
		d = max(d, visits[i].done)
	}
	return d
}

// statuses counts weir's words.
func statuses(visits []visit) map[string]int {
	count := map[string]int{}
	for i := range visits {
		if s := visits[i].status; s != "" {
			count[s]++
		}
	}
	return count
}
