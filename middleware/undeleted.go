package middleware

import (
	"context"

	"github.com/weirhttp/weir/purge"
)

// noteUndeleted purges what the disk could not delete: it isn't found any more, but
// it would be after a restart. Whoever deleted something calls this before anybody
// is told that it's gone. While another does the same it waits: that one may have
// taken what it deleted, and not be done.
func (m *Middleware) noteUndeleted() {
	if m.cfg.Store.Disk == nil {
		return
	}
	m.undeleting.Lock()
	defer m.undeleting.Unlock()
	keys, all := m.store.Undeleted()
	if len(keys) == 0 && !all {
		return
	}
	targets := make([]purge.Target, len(keys))
	for i, k := range keys {
		targets[i].Key = k
	}
	_, err := m.purges.list.Invalidate(context.Background(), targets...)
	if all && err == nil {
		_, err = m.purges.list.Add(context.Background(), purge.Selector{Kind: purge.Everything})
	}
	if err != nil {
		m.logger().Error("weir: what the disk could not delete may be there again after a restart", "err", err)
	}
}
