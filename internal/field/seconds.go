package field

import "time"

// MaxSeconds is where delta-seconds saturate: 2³¹, the least that RFC 9111
// §1.2.2 asks for, some 68 years.
const MaxSeconds = 1 << 31

// Seconds reads delta-seconds: decimal digits and nothing else (RFC 9111
// §1.2.2). Larger values become [MaxSeconds].
func Seconds(s string) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	var n int64
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = min(n*10+int64(s[i]-'0'), MaxSeconds)
	}
	return time.Duration(n) * time.Second, true
}
