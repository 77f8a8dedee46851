package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// report has all figures of a show.
type report struct {
	verdict
	Origin   string          `json:"origin_url"`
	Weir     string          `json:"weir_url"`
	Plain    string          `json:"plain_proxy_url"`
	Seconds  float64         `json:"seconds"`
	Cold     *coldFigures    `json:"cold_url"`
	Stream   *streamFigures  `json:"stream"`
	Sessions *sessionFigures `json:"sessions"`
	Answers  *answerFigures  `json:"answers"`
	Load     *loadFigures    `json:"load"`
}

// verdict says whether figures are as stated, and what isn't.
type verdict struct {
	OK  bool     `json:"ok"`
	Off []string `json:"off"`
}

func newVerdict() verdict { return verdict{OK: true, Off: []string{}} }

func (v *verdict) result() *verdict { return v }

// must notes what is off unless ok.
func (v *verdict) must(ok bool, format string, args ...any) {
	if !ok {
		v.OK, v.Off = false, append(v.Off, fmt.Sprintf(format, args...))
	}
}

func (v *verdict) mustWork(err error) {
	v.must(err == nil, "%v", err)
}

// show is a scene on the screen: whether it went as stated, its title, its
// lines, and what was off.
func (v *verdict) show(title string, lines ...string) string {
	var b strings.Builder
	mark := "ok "
	if !v.OK {
		mark = "OFF"
	}
	fmt.Fprintf(&b, "%s  %s\n", mark, title)
	for _, line := range lines {
		fmt.Fprintf(&b, "       %s\n", line)
	}
	for _, off := range v.Off {
		fmt.Fprintf(&b, "     ! %s\n", off)
	}
	return b.String()
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

func (r *report) conclusion() string {
	if r.OK {
		return fmt.Sprintf("\nAll figures are as stated, measured in %.0f s.\n", r.Seconds)
	}
	return fmt.Sprintf("\n%s not as stated.\n", count(len(r.Off), "figure"))
}

// intro comes before the show.
func (s *stage) intro() string {
	return fmt.Sprintf("An origin that takes %s to render a page, and weir before it:\n"+
		"  origin %s   weir %s\n\n", inMillis(s.render), s.originURL, s.weirURL)
}

// invitation says what to try afterwards.
func (s *stage) invitation() string {
	var b strings.Builder
	b.WriteString("\nStill serving, until Ctrl-C. Try, each twice:\n")
	for _, try := range []struct{ args, url, told string }{
		{"-i", s.weirURL + newsPage, "a hit"},
		{"-iN", s.weirURL + reportPage + "?2", "streams; then a hit"},
		{"-i", s.weirURL + accountPage, "never shared"},
		{"-i", s.plainURL + newsPage, "without weir"},
	} {
		fmt.Fprintf(&b, "  curl %-3s %-36s %s\n", try.args, "'"+try.url+"'", try.told)
	}
	return b.String()
}

// millis is a time in milliseconds, to a tenth of one.
type millis float64

func inMillis(d time.Duration) millis {
	return millis(round(float64(d) / float64(time.Millisecond)))
}

// String is the time in the unit that's easiest to read.
func (m millis) String() string {
	switch {
	case m >= 1000:
		return fmt.Sprintf("%.1f s", float64(m)/1000)
	case m >= 10:
		return fmt.Sprintf("%.0f ms", float64(m))
	}
	return fmt.Sprintf("%.1f ms", float64(m))
}

func round(f float64) float64 { return math.Round(10*f) / 10 }
