package lb

import "sync"

// bufferSize is what bodies are copied by: as much as fits a TLS record twice.
const bufferSize = 32 << 10

// buffers are the pooled buffers of bodies under way.
var buffers bufferPool

// bufferPool is an httputil.BufferPool that doesn't allocate.
type bufferPool struct{ pool sync.Pool }

// Get returns a buffer of bufferSize.
func (b *bufferPool) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return p[:]
	}
	return new([bufferSize]byte)[:]
}

// Put takes a buffer back.
func (b *bufferPool) Put(p []byte) {
	if cap(p) >= bufferSize {
		b.pool.Put((*[bufferSize]byte)(p[:bufferSize]))
	}
}
