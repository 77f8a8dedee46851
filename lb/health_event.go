package lb

import (
	"context"
	"log/slog"
	"time"
)

// event is a change that is logged, once the lock is free. The zero value is none.
type event struct {
	level   slog.Level
	message string
	origin  string
	reason  string
	lasts   time.Duration // 0: it isn't known
}

// event makes one, and keeps the reason.
func (c *condition) event(level slog.Level, message, reason string, lasts time.Duration) event {
	if level >= slog.LevelWarn {
		c.reason = reason
	}
	return event{level, message, c.id, reason, lasts}
}

func (e event) log(cfg *healthConfig) {
	if e.message == "" {
		return
	}
	attrs := []slog.Attr{slog.String("pool", cfg.pool), slog.String("origin", e.origin), slog.String("reason", e.reason)}
	if e.lasts > 0 {
		attrs = append(attrs, slog.Duration("for", e.lasts))
	}
	cfg.log.LogAttrs(context.Background(), e.level, e.message, attrs...)
}
