package cachekey

import "strings"

// The device classes.
const (
	Desktop = "desktop"
	Mobile  = "mobile"
	Tablet  = "tablet"
)

// DeviceClass reduces User-Agent to [Desktop], [Mobile] or [Tablet] by the words
// that browsers are known to use. What isn't recognised, an absent field
// included, is a desktop. It fits no other field.
//
// The response made for one visitor's browser is handed to the whole class, so
// the request that fills the cache carries a generic User-Agent of that class;
// set Send in the result to choose another.
func DeviceClass() Normalizer {
	return Normalizer{Value: classOf, Send: genericAgent, only: "user-agent"}
}

// classOf finds the class. Order matters: tablets say "Android" without "Mobile",
// some also say "Mobile".
func classOf(lines []string) string {
	class := Desktop
	for _, line := range lines {
		switch {
		case containsAny(line, "iPad", "PlayBook", "Kindle", "Silk/", "(Tablet;", "; Tablet;", "SM-T"):
			return Tablet
		case containsAny(line, "Mobi", "iPhone", "iPod", "Opera Mini", "BlackBerry", "Windows Phone"):
			class = Mobile
		case class == Desktop && strings.Contains(line, "Android") &&
			!containsAny(line, "TV", "BRAVIA", "AFT"):
			class = Tablet
		}
	}
	return class
}

func containsAny(s string, words ...string) bool {
	for _, word := range words {
		if strings.Contains(s, word) {
			return true
		}
	}
	return false
}

// genericAgent returns the reduced User-Agent that Chrome sends on every device of
// a class, without model and minor versions.
func genericAgent(class string) string {
	const (
		start = "Mozilla/5.0 ("
		end   = ") AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 "
	)
	switch class {
	case Mobile:
		return start + "Linux; Android 10; K" + end + "Mobile Safari/537.36"
	case Tablet:
		return start + "Linux; Android 10; K" + end + "Safari/537.36"
	}
	return start + "Windows NT 10.0; Win64; x64" + end + "Safari/537.36"
}
