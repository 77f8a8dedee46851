package main

import (
	"context"
	"fmt"
)

// sessionFigures are those of visitors at once on a page that gives each of
// them a session, and that says, wrongly, that it may be shared.
type sessionFigures struct {
	verdict
	Visitors int            `json:"visitors"`
	Sessions int            `json:"sessions"` // different ones
	Foreign  int            `json:"foreign"`  // visitors whose page was another's
	Renders  int            `json:"renders"`
	Millis   millis         `json:"ms"` // until the last visitor had the page
	Statuses map[string]int `json:"statuses"`
}

func (s *stage) showSessions(ctx context.Context) *sessionFigures {
	f := &sessionFigures{verdict: newVerdict(), Visitors: s.users}
	visits, err := s.crowd(ctx, s.users, s.weirURL+accountPage)
	f.mustWork(err)
	f.Renders = s.origin.rendered(accountPage)
	f.Millis = inMillis(slowest(visits))
	f.Statuses = statuses(visits)
	seen := map[string]bool{}
	for i := range visits {
		if visits[i].session != "" {
			seen[visits[i].session] = true
		}
		if visits[i].session != visits[i].body {
			f.Foreign++
		}
	}
	f.Sessions = len(seen)
	f.judge()
	return f
}

func (f *sessionFigures) judge() {
	f.must(f.Sessions == f.Visitors, "%s instead of %d", count(f.Sessions, "different session"), f.Visitors)
	f.must(f.Foreign == 0, "%s got a page without the session of their cookie", count(f.Foreign, "visitor"))
	f.must(f.Renders == f.Visitors, "%s instead of %d", count(f.Renders, "render"), f.Visitors)
}

func (f *sessionFigures) String() string {
	return f.show(
		fmt.Sprintf("%d visitors at once on a page that sets a session cookie, yet says public", f.Visitors),
		fmt.Sprintf("%s, %s mixed up; all served after %s",
			count(f.Sessions, "different session"), count(f.Foreign, "page"), f.Millis))
}
