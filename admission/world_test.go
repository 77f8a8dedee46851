package admission

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// world simulates clients, a limiter and an origin, in the time of a bubble. It
// has one goroutine, so it turns out the same each time.
type world struct {
	l        *Limiter // nil: everyone goes to the origin
	origin   originModel
	patience time.Duration // after which a client is gone; the origin works on all the same
	reading  func() time.Duration
	noise    float64              // of the work: see scene
	extra    func() time.Duration // that the origin waits for something else
	rng      *rand.Rand
	began    time.Time
	events   events
	seq      int
	waiting  []*visit
	done     []*visit
}

// visit is one request.
type visit struct {
	r        Request
	name     string
	came     time.Duration
	took     time.Duration // until the first byte
	ok       bool          // within the client's patience
	w        *waiter
	permit   Permit
	finishAt float64 // in the origin's virtual time
}

// originModel is a processor that its requests share. Up to capacity they don't
// slow each other down. Beyond, it loses throughput to contention: with twice the
// requests it does what it would with less than its capacity.
type originModel struct {
	capacity float64
	base     time.Duration
	loss     float64 // exponent; 1 would lose nothing
	virtual  float64 // work that each request got so far
	at       time.Duration
	inside   visits
	version  int
}

func (o *originModel) speed() float64 {
	n := float64(len(o.inside))
	return 1 / (float64(o.base) * max(1, math.Pow(n/o.capacity, o.loss)))
}

func newWorld(l *Limiter, seed uint64) *world {
	return &world{
		l: l, patience: time.Second, began: time.Now(), rng: rand.New(rand.NewPCG(seed, 8)),
		origin: originModel{capacity: 100, base: 100 * time.Millisecond, loss: 1.5},
	}
}

func (w *world) now() time.Duration { return time.Since(w.began) }

func (w *world) at(t time.Duration, f func()) {
	w.seq++
	heap.Push(&w.events, event{t, w.seq, f})
}

// offer has requests come at random from one instant to another.
func (w *world) offer(name string, r Request, perSecond float64, from, to time.Duration) {
	var next func()
	pause := func() time.Duration { return time.Duration(w.rng.ExpFloat64() / perSecond * float64(time.Second)) }
	next = func() {
		w.arrive(&visit{r: r, name: name, came: w.now()})
		if t := w.now() + pause(); t < to {
			w.at(t, next)
		}
	}
	w.at(from+pause(), next)
}

// run lets time go by.
func (w *world) run(to time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= to {
		e := heap.Pop(&w.events).(event)
		time.Sleep(e.at - w.now())
		e.f()
		w.collect()
	}
	time.Sleep(to - w.now())
}

// arrive does what [Limiter.Acquire] does.
func (w *world) arrive(v *visit) {
	if w.l == nil {
		w.enter(v)
		return
	}
	l, p := w.l, w.l.place(&v.r)
	if l.waiters == 0 && l.fits(p) {
		v.permit = l.pass(p)
		w.enter(v)
		return
	}
	timeout := min(l.config.routes[p.route].timeout, w.patience/4)
	if v.w, _ = l.lineUp(&v.r, p, l.now(), timeout); v.w == nil {
		w.done = append(w.done, v)
		return
	}
	w.waiting = append(w.waiting, v)
	waiter := v.w
	w.at(w.now()+timeout, func() {
		if v.w == waiter && !waiter.settled {
			l.withdraw(waiter, QueueTimeout, l.now())
		}
	})
}

// collect sees who needn't wait any longer.
func (w *world) collect() {
	if w.l == nil || w.l.waiters == len(w.waiting) {
		return
	}
	for _, v := range w.waiting {
		if v.w.settled {
			<-v.w.wake
			var d Decision
			v.permit, d = w.l.recycle(v.w)
			v.w = nil
			if d.OK() {
				w.enter(v)
			} else {
				w.done = append(w.done, v)
			}
		}
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(v *visit) bool { return v.w == nil })
}

func (w *world) enter(v *visit) {
	w.advance()
	v.finishAt = w.origin.virtual + w.work()
	heap.Push(&w.origin.inside, v)
	w.plan()
}

// work is how much a request is, 1 on average.
func (w *world) work() float64 {
	if w.noise == 0 {
		return 0.5 + w.rng.Float64()
	}
	return math.Exp(w.noise*w.rng.NormFloat64() - w.noise*w.noise/2)
}

// advance brings the origin's virtual time up to now.
func (w *world) advance() {
	o := &w.origin
	o.virtual += float64(w.now()-o.at) * o.speed()
	o.at = w.now()
}

// plan says when the origin's next request ends.
func (w *world) plan() {
	o := &w.origin
	o.version++
	if len(o.inside) == 0 {
		return
	}
	version, left := o.version, max(0, o.inside[0].finishAt-o.virtual)/o.speed()
	if left > float64(time.Hour) {
		return // not in this test
	}
	w.at(w.now()+time.Duration(math.Ceil(left)), func() {
		if version != o.version {
			return
		}
		w.advance()
		for len(o.inside) > 0 && o.inside[0].finishAt <= o.virtual+1e-9 {
			w.answer(heap.Pop(&o.inside).(*visit))
		}
		w.plan()
	})
}

// answer sends the first byte, and the others as fast as the client reads.
func (w *world) answer(v *visit) {
	var extra, reading time.Duration
	if w.extra != nil {
		extra = w.extra()
	}
	if w.reading != nil {
		reading = w.reading()
	}
	first := func() {
		v.took = w.now() - v.came
		v.ok = v.took <= w.patience
		v.permit.FirstByte()
		w.done = append(w.done, v)
	}
	if extra == 0 {
		first()
	} else {
		w.at(w.now()+extra, first)
	}
	if extra+reading == 0 {
		v.permit.Release()
	} else {
		w.at(w.now()+extra+reading, v.permit.Release)
	}
}

// among returns what became of those with a name, or of all, that came within a
// time.
func (w *world) among(name string, from, to time.Duration) (all, good int, took []time.Duration) {
	for _, v := range w.done {
		if name != "" && v.name != name || v.came < from || v.came >= to {
			continue
		}
		all++
		if v.ok {
			good++
			took = append(took, v.took)
		}
	}
	slices.Sort(took)
	return all, good, took
}

func percentile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

type event struct {
	at  time.Duration
	seq int
	f   func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	x := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return x
}

type visits []*visit

func (v visits) Len() int           { return len(v) }
func (v visits) Less(i, j int) bool { return v[i].finishAt < v[j].finishAt }
func (v visits) Swap(i, j int)      { v[i], v[j] = v[j], v[i] }
func (v *visits) Push(x any)        { *v = append(*v, x.(*visit)) }
func (v *visits) Pop() any {
	x := (*v)[len(*v)-1]
	*v = (*v)[:len(*v)-1]
	return x
}
