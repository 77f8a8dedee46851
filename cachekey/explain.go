package cachekey

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/weirhttp/weir/internal/field"
)

// Explanation is everything about one request's key, for traces, tests and
// status pages.
type Explanation struct {
	Parts   []Part  `json:"parts"`
	Text    string  `json:"text"`    // the canonical text
	Key     Key     `json:"key"`     // its hash; zero with a problem
	Problem Problem `json:"problem"` // why the request has no key; zero if it has one
}

// Part is an ingredient that is in the key, or an input that isn't.
type Part struct {
	Ingredient
	Kept   bool   `json:"kept"`
	Reason string `json:"reason"` // one sentence
}

// MarshalText implements [encoding.TextMarshaler] with the sentence of String.
func (p Problem) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Explain returns the ingredients of a request's primary key in the order of the
// text, then the query parameters and cookies that aren't in it, in the order
// sent, each with its reason. Cookies outside the key appear without their values. It
// allocates, and is meant for debugging, not for each request.
func (s *Spec) Explain(in *Input) Explanation {
	text, problem := s.AppendText(nil, in)
	e := Explanation{Text: string(text), Problem: problem}
	if problem == NoProblem {
		e.Key, _ = s.Primary(in)
	}
	// What is explained is read back from the text, which always parses, so that it
	// can't differ from what is hashed.
	kept, _ := Parse(e.Text)
	for _, part := range kept {
		e.Parts = append(e.Parts, Part{part, true, s.keptReason(part)})
	}
	if in.Request != nil && in.Request.URL != nil {
		e.explainQuery(s, in.Request.URL.RawQuery, in.Request.URL.ForceQuery)
		e.explainCookies(s, in.Request.Header)
	}
	return e
}

// String lists the parts, one a line, then the text, the key and any problem.
func (e Explanation) String() string {
	var b strings.Builder
	for _, p := range e.Parts {
		mark := "dropped"
		if p.Kept {
			mark = "keyed"
		}
		what := p.Name
		switch {
		case p.State == Absent:
			what += " (absent)"
		case !p.Kind.Named():
			what = fmt.Sprintf("%q", p.Value)
		case p.State == Valued && (p.Kept || p.Kind == KindQuery):
			what = fmt.Sprintf("%s=%q", p.Name, p.Value)
		}
		fmt.Fprintf(&b, "%-8s%-7s%s: %s\n", mark, p.Kind, what, p.Reason)
	}
	fmt.Fprintf(&b, "text    %s\n", e.Text)
	if e.Problem != NoProblem {
		fmt.Fprintf(&b, "no key  %s\n", e.Problem)
		return b.String()
	}
	fmt.Fprintf(&b, "key     %s\n", e.Key)
	return b.String()
}

// keptReasons are the sentences for ingredients that need no look at the rules.
var keptReasons = [kindEnd]string{
	KindZone:      "The zone keeps its cache apart.",
	KindScheme:    "The scheme is always keyed.",
	KindHost:      "The host is always keyed, in lower case and without the default port.",
	KindTarget:    "The request line names another scheme or host than the request is keyed under.",
	KindMethod:    "The method class is always keyed; GET stands for HEAD too.",
	KindPath:      "The path is always keyed, as sent.",
	KindOpaque:    "The request target has no path.",
	KindCookie:    "The rules key this cookie.",
	KindHeader:    "The rules key this header field.",
	KindExtra:     "The application keys this pair.",
	KindUser:      "The response is kept for this user only.",
	KindSelecting: "The response's Vary names this field.",
}

func (s *Spec) keptReason(part Ingredient) string {
	if part.Kind == KindHeader {
		for i := range s.headers {
			if s.headers[i].lower == part.Name && s.headers[i].norm.Value != nil {
				return "The rules key this header field, normalised."
			}
		}
	}
	if part.Kind != KindQuery {
		return keptReasons[part.Kind]
	}
	pair := part.Name
	if part.State == Valued {
		pair += "=" + part.Value
	}
	switch {
	case s.query.judge(pair, part.Name) == keyedAmbiguous:
		return "The rules leave this parameter out, but an origin may read other parameters in it."
	case s.query.mode == QueryInclude:
		return "The rules key this parameter."
	case s.query.mode == QueryExclude:
		return "The rules key every parameter but those they list."
	}
	return "The rules key every parameter."
}

func (e *Explanation) explainQuery(s *Spec, query string, force bool) {
	if query == "" && !force {
		return
	}
	for at := 0; at <= len(query); {
		p := paramAt(query, at)
		at = p.end + 1
		reason := s.query.judge(p.pair(query), p.name(query)).leftReason()
		if reason == "" {
			continue
		}
		part := Ingredient{Kind: KindQuery, Name: p.name(query), State: Bare}
		if p.eq < p.end {
			part.Value, part.State = query[p.eq+1:p.end], Valued
		}
		e.Parts = append(e.Parts, Part{part, false, reason + s.fillSuffix(e.Problem)})
	}
}

// fillSuffix says what becomes of a dropped parameter in the fill.
func (s *Spec) fillSuffix(problem Problem) string {
	switch {
	case problem != NoProblem:
		return "."
	case s.keepUnkeyed:
		return "; the origin is sent it all the same."
	}
	return "; the request that fills the cache goes without it."
}

// leftReason begins the sentence on a parameter that isn't keyed; it is empty for
// one that is.
func (v verdict) leftReason() string {
	switch v {
	case leftExcluded:
		return "The rules exclude this parameter"
	case leftUnlisted:
		return "The rules don't list this parameter"
	case leftAll:
		return "The rules key no parameter"
	case leftEmpty:
		return "There is no parameter between these separators"
	case unknown:
		return "The rules don't list this parameter and refuse to cache with it"
	}
	return ""
}

func (e *Explanation) explainCookies(s *Spec, h http.Header) {
	reason := "The rules don't key this cookie; it stays in the request."
	if s.dropOtherCookies {
		reason = "The rules don't key this cookie; the request that fills the cache goes without it."
	}
	for i := range s.headers {
		if s.headers[i].lower == "cookie" {
			return
		}
	}
	for c := range field.Cookies(h["Cookie"]) {
		if c.Text == "" || s.keysCookie(c.Name) {
			continue
		}
		state := Valued
		if c.Bare {
			state = Bare
		}
		e.Parts = append(e.Parts, Part{Ingredient{Kind: KindCookie, Name: c.Name, State: state}, false, reason})
	}
}
