package middleware

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/flight"
)

// Middleware is a shared cache that can be put around handlers. Make it with
// [New]. Safe for concurrent use.
type Middleware struct {
	cfg     *config
	store   *store.Store
	flights flight.Group[*head]
	purges  *purger
	zones   zones

	governor    *governor // nil if nothing is limited
	notedUnused sync.Once

	undeleting sync.Mutex // see noteUndeleted
	order      partOrders

	// exchanges that may be used again. They are a middleware's own because of their
	// timers: those of one that is tested in a bubble of synctest stay there.
	exchanges sync.Pool

	fetches sync.WaitGroup // goroutines of fetches under way
	closing context.Context
	close   context.CancelFunc
}

// New makes a Middleware. The error, if any, joins one *[ConfigError] (or the
// error of the package concerned) for each thing wrong with the options; then
// Options.Store.Disk is still the caller's to close, and nothing was purged.
func New(o Options) (*Middleware, error) {
	cfg, err := resolve(o)
	m := &Middleware{cfg: cfg}
	var purgeErr error
	m.purges, purgeErr = newPurger(m, &o)
	var admissionErr error
	m.governor, admissionErr = newGovernor(&cfg.Options)
	err = errors.Join(err, purgeErr, admissionErr)
	if err != nil {
		o.Store.Disk = nil // only to learn what else is wrong: the tier stays the caller's
	}
	st, storeErr := store.New(o.Store)
	m.store = st
	if err := errors.Join(err, storeErr); err != nil {
		m.discard()
		return nil, err
	}
	m.closing, m.close = context.WithCancel(context.Background())
	m.purges.purgeIfRulesChanged(m.logger())
	return m, nil
}

// discard closes what a New that failed has made.
func (m *Middleware) discard() {
	m.governor.close()
	if m.store != nil {
		_ = m.store.Close(context.Background())
	}
	if m.purges != nil {
		_ = m.purges.list.Close(context.Background())
	}
}

// Wrap returns next with the cache in front of it. Each call makes a space of
// its own in the cache, so that handlers that see the same URLs (two mounts
// behind http.StripPrefix, say) are never given each other's responses.
//
// Its signature is the usual one of middleware, so m.Wrap can be given to a
// router's Use method.
//
// With a disk, which of several handlers a stored response belongs to has to be the
// same after a restart, so that they need names: Wrap then panics unless its handler
// is the only one. Use [Middleware.WrapZone].
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return m.wrap(m.zones.number(m.cfg.Store.Disk != nil), next)
}

// WrapZone is Wrap with a name for the handler's space, which purges know it by and
// a disk finds it by. It panics if the name is in use, or longer than 255 bytes.
func (m *Middleware) WrapZone(zone string, next http.Handler) http.Handler {
	m.zones.claim(zone, m.cfg.Store.Disk != nil)
	return m.wrap(zone, next)
}

func (m *Middleware) wrap(zone string, next http.Handler) http.Handler {
	h := &handler{Middleware: m, next: next, zone: zone, place: m.governor.place(zone, m.cfg.Default.Admission)}
	if m.cfg.def.spec.URLOnly() {
		h.memo = newKeyMemo()
	}
	if m.cfg.Purge.Authorise != nil {
		p, err := m.purgeMethod(zone)
		if err != nil {
			panic(err) // New has tried it
		}
		h.purgeMethod = p
	}
	return h
}

// Stats returns the store's counters.
func (m *Middleware) Stats() store.Stats { return m.store.Stats() }

// Close cancels the fetches under way, waits for their goroutines to end or
// for ctx, empties the memory and closes the disk. Requests must not come any
// more: shut the server down first. When it returns early because ctx ended, the
// store and the list of purges are open still: call it again with more time, or
// what waits to be written is lost, and so are purges that were queued.
func (m *Middleware) Close(ctx context.Context) error {
	m.close()
	m.governor.close()
	done := make(chan struct{})
	go func() {
		m.fetches.Wait()
		close(done)
	}()
	select {
	case <-done:
		err := m.store.Close(ctx)
		m.noteUndeleted()
		return errors.Join(err, m.purges.list.Close(ctx))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *Middleware) logger() *slog.Logger {
	if m.cfg.Logger != nil {
		return m.cfg.Logger
	}
	return slog.Default()
}

// handler is the cache in front of one wrapped handler.
type handler struct {
	*Middleware
	next http.Handler
	zone string

	place       place          // for admission
	purgeMethod *purge.Handler // nil if PURGE isn't the cache's affair

	memo *keyMemo // nil if the key depends on more than the URL

	// extra says that a request came whose key has more of a trusted proxy's fields in
	// it than scheme and host. It's set before anything is fetched for that.
	extra atomic.Bool
}
