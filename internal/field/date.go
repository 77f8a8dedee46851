package field

import "time"

// ParseDate reads an HTTP-date (RFC 9110 §5.6.7) in any of its three forms:
//
//	Sun, 06 Nov 1994 08:49:37 GMT
//	Sunday, 06-Nov-94 08:49:37 GMT
//	Sun Nov  6 08:49:37 1994
//
// Names are read without regard to case, as recipients in the field do. In all
// else the forms are exact: other zones, other separators, missing or doubled
// blanks and shortened numbers are no dates. The day of the week need not fit.
// A leap second counts as the second after it.
//
// now places the two-digit year of the second form: a date more than 50 years
// ahead of it is taken for one of the past century.
func ParseDate(s string, now time.Time) (time.Time, bool) {
	comma := -1
	for i := 0; i < len(s) && i < len("wednesday,"); i++ {
		if s[i] == ',' {
			comma = i
			break
		}
	}
	switch {
	case comma == 3:
		return parseIMF(s)
	case comma > 3:
		return parseRFC850(s[:comma], s[comma+1:], now)
	default:
		return parseASCTime(s)
	}
}

func parseIMF(s string) (time.Time, bool) {
	// Sun, 06 Nov 1994 08:49:37 GMT
	if len(s) != 29 || !weekday(s[:3], false) || s[4] != ' ' || s[7] != ' ' || s[11] != ' ' || s[16] != ' ' || !gmt(s[25:]) {
		return time.Time{}, false
	}
	return date(number(s[12:16]), month(s[8:11]), number(s[5:7]), s[17:25])
}

func parseRFC850(day, s string, now time.Time) (time.Time, bool) {
	// Sunday| 06-Nov-94 08:49:37 GMT
	if len(s) != 23 || !weekday(day, true) || s[0] != ' ' || s[3] != '-' || s[7] != '-' || s[10] != ' ' || !gmt(s[19:]) {
		return time.Time{}, false
	}
	year := number(s[8:10])
	if year < 0 {
		return time.Time{}, false
	}
	now = now.UTC()
	year += now.Year() / 100 * 100
	for ; year < now.Year()-50; year += 100 {
	}
	t, ok := date(year, month(s[4:7]), number(s[1:3]), s[11:19])
	if !ok || t.After(now.AddDate(50, 0, 0)) {
		t, ok = date(year-100, month(s[4:7]), number(s[1:3]), s[11:19])
	}
	return t, ok
}

func parseASCTime(s string) (time.Time, bool) {
	// Sun Nov  6 08:49:37 1994
	if len(s) != 24 || !weekday(s[:3], false) || s[3] != ' ' || s[7] != ' ' || s[10] != ' ' || s[19] != ' ' {
		return time.Time{}, false
	}
	d := s[8:10]
	if d[0] == ' ' {
		d = d[1:]
	}
	return date(number(s[20:]), month(s[4:7]), number(d), s[11:19])
}

// date puts the parts together; clock is "08:49:37".
func date(year, mon, day int, clock string) (time.Time, bool) {
	if clock[2] != ':' || clock[5] != ':' {
		return time.Time{}, false
	}
	h, m, s := number(clock[:2]), number(clock[3:5]), number(clock[6:])
	if year < 0 || mon < 1 || day < 1 || h < 0 || h > 23 || m < 0 || m > 59 || s < 0 || s > 60 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(mon), day, h, m, 0, 0, time.UTC)
	if t.Day() != day { // 31 February
		return time.Time{}, false
	}
	return t.Add(time.Duration(s) * time.Second), true
}

// number reads decimal digits and nothing else; -1 if s is anything else.
func number(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return -1
		}
		n = n*10 + int(s[i]-'0')
	}
	if s == "" {
		return -1
	}
	return n
}

func weekday(s string, long bool) bool {
	for d := time.Sunday; d <= time.Saturday; d++ {
		name := d.String()
		if !long {
			name = name[:3]
		}
		if EqualFold(s, name) {
			return true
		}
	}
	return false
}

func month(s string) int {
	for m := time.January; m <= time.December; m++ {
		if EqualFold(s, m.String()[:3]) {
			return int(m)
		}
	}
	return 0
}

func gmt(s string) bool { return EqualFold(s, " gmt") }

// FormatDate writes t in the preferred form, in whole seconds.
func FormatDate(t time.Time) string {
	return t.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
}
