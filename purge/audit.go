package purge

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxAudited is how many selectors of a call the audit log spells out.
const maxAudited = 20

// maxRefusalsLogged is how many refused calls are logged in a second: anyone can
// send them.
const maxRefusalsLogged = 10

// auditor writes a line for each call.
type auditor struct {
	log *slog.Logger

	mu         sync.Mutex
	second     int64
	lines      int
	suppressed int
}

// call logs an authorised call.
func (a *auditor) call(r *http.Request, who string, selectors []Selector, ans answer) {
	attrs := append(requestAttrs(r, who),
		slog.Int("status", ans.status), slog.Int("selectors", len(selectors)),
		slog.String("what", spell(selectors)))
	if ans.result.Seq > 0 {
		attrs = append(attrs, slog.Uint64("seq", ans.result.Seq))
	}
	attrs = append(attrs, slog.Int("applied", ans.result.Applied), slog.Int("queued", ans.result.Queued),
		slog.Bool("durable", ans.result.Durable))
	level := slog.LevelInfo
	if ans.problem != "" {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("error", clip(ans.problem)))
	}
	a.log.LogAttrs(context.WithoutCancel(r.Context()), level, "purge", attrs...)
}

// refused logs a call that wasn't authorised.
func (a *auditor) refused(r *http.Request, status int, err error) {
	now := time.Now().Unix()
	a.mu.Lock()
	if a.second != now {
		a.second, a.lines = now, 0
	}
	a.lines++
	suppressed := a.suppressed
	over := a.lines > maxRefusalsLogged
	if over {
		a.suppressed++
	} else {
		a.suppressed = 0
	}
	a.mu.Unlock()
	if over {
		return
	}
	attrs := append(requestAttrs(r, ""), slog.Int("status", status), slog.String("error", clip(err.Error())))
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("not_logged", suppressed))
	}
	a.log.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelWarn, "purge refused", attrs...)
}

// requestAttrs are printable and bounded.
func requestAttrs(r *http.Request, who string) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("remote", printable(r.RemoteAddr)),
		slog.String("method", printable(r.Method)),
	}
	if who != "" {
		attrs = append(attrs, slog.String("who", printable(who)))
	}
	return attrs
}

// printable is s if that is short and harmless, or else quoted and cut.
func printable(s string) string {
	if q := clip(s); len(q) != len(s)+2 || q[1:len(q)-1] != s {
		return q
	}
	return s
}

func spell(selectors []Selector) string {
	var b strings.Builder
	for i, s := range selectors {
		if i == maxAudited {
			b.WriteString("; ...")
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(s.String())
	}
	return b.String()
}
