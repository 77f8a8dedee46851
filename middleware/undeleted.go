package middleware

import (
	"context"

	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// noteUndeleted purges what the disk could not delete: it isn't found any more, but
// it would be after a restart. Whoever deleted something calls this before anybody
// is told that it's gone. While another does the same it waits: that one may have
// taken what it deleted, and not be done.
func (m *Middleware) noteUndeleted() { m.noteUndeletedBeside(nil) }

// noteUndeletedBeside is noteUndeleted for whoever has just stored o, and returns the
// number of the purge if that concerns o and no other does.
func (m *Middleware) noteUndeletedBeside(o *store.Object) (number uint64) {
	if m.cfg.Store.Disk == nil {
		return 0
	}
	m.undeleting.Lock()
	defer m.undeleting.Unlock()
	keys, all := m.store.Undeleted()
	if len(keys) == 0 && !all {
		return 0
	}
	before := m.purges.list.Now()
	valid := o != nil && m.verdict(o) != purge.Gone
	var res purge.Result
	var err error
	if all {
		res, err = m.purges.list.Add(context.Background(), purge.Selector{Kind: purge.Everything})
	} else {
		targets := make([]purge.Target, len(keys))
		for i, k := range keys {
			targets[i].Key = k
		}
		res, err = m.purges.list.Invalidate(context.Background(), targets...)
	}
	if err != nil {
		m.logger().Error("weir: what the disk could not delete may be there again after a restart", "err", err)
	}
	if valid && res.Seq == before+1 && m.verdict(o) == purge.Gone {
		return res.Seq
	}
	return 0
}

// settle notes what the disk could not delete to make room for o, which has just been
// stored. What that purges is older than o, so that o is given the purge's number.
func (f *fetch) settle(o *store.Object) {
	number := f.h.noteUndeletedBeside(o)
	if number == 0 {
		return
	}
	there, _ := f.h.store.Get(o.Key)
	facts, _, ok := parseFacts(o.Facts)
	if there == nil || !there.Same(o) || !ok {
		return
	}
	facts.Key, facts.Seq = o.Primary, number
	again := there.Freshened(there.Header.Header(), there.Life, there.RequestedAt)
	again.Attached, again.Facts = purge.NewSubject(facts), appendFacts(nil, &facts, f.h.purges.list.Written())
	f.put(nil, again)
}
