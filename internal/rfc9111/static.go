package rfc9111

import (
	"net/http"
	"strings"

	"github.com/weirhttp/weir/internal/field"
)

// staticTypes are the media types, beside whole top-level types, that are
// static beyond doubt.
var staticTypes = map[string]bool{
	"text/css":                      true,
	"text/javascript":               true,
	"application/javascript":        true,
	"application/x-javascript":      true,
	"application/ecmascript":        true,
	"text/ecmascript":               true,
	"application/wasm":              true,
	"application/pdf":               true,
	"application/font-woff":         true,
	"application/font-woff2":        true,
	"application/font-sfnt":         true,
	"application/x-font-ttf":        true,
	"application/x-font-otf":        true,
	"application/x-font-woff":       true,
	"application/vnd.ms-fontobject": true,
}

// MediaType returns the type of a response in lower case and without
// parameters, or "" if it has none, or several that differ.
func MediaType(h http.Header) string {
	var t string
	for i, line := range h["Content-Type"] {
		m, _ := field.CutParameters(line)
		m = field.Lower(m)
		if i > 0 && m != t {
			return ""
		}
		t = m
	}
	return t
}

// IsStaticType reports whether a media type, as [MediaType] returns it, is
// static beyond doubt: style sheets, scripts, images, video, audio, fonts, PDF
// and WebAssembly. HTML, JSON and plain text never are.
func IsStaticType(mediaType string) bool {
	top, sub, ok := strings.Cut(mediaType, "/")
	if !ok || !field.IsToken(sub) {
		return false
	}
	switch top {
	case "image", "video", "audio", "font":
		return true
	}
	return staticTypes[mediaType]
}

// extensions maps the extensions by which people recognise static files to what
// their media types start with.
var extensions = func() map[string][]string {
	const (
		script = "text/javascript application/javascript application/x-javascript application/ecmascript text/ecmascript"
		fonts  = "font/ application/font- application/x-font- application/vnd.ms-fontobject application/octet-stream"
		image  = "image/"
		video  = "video/ application/octet-stream"
		audio  = "audio/ video/ application/ogg application/octet-stream"
	)
	m := make(map[string][]string)
	for types, list := range map[string]string{
		"text/css": "css", script: "js mjs cjs",
		"application/wasm": "wasm", "application/pdf": "pdf",
		image: "png apng jpg jpeg jpe jfif gif webp avif jxl svg svgz ico bmp tif tiff heic heif cur",
		fonts: "woff woff2 ttf otf eot",
		video: "mp4 m4v webm mov ogv avi mkv ts m4s",
		audio: "mp3 m4a aac flac wav ogg oga opus weba",
		"application/json application/manifest+json application/octet-stream":          "json map webmanifest",
		"application/xml text/xml application/rss+xml application/atom+xml":            "xml rss atom",
		"application/zip application/gzip application/x-gzip application/octet-stream": "zip gz",
		"text/plain": "txt",
		"text/csv":   "csv",
	} {
		for ext := range strings.FieldsSeq(list) {
			m[ext] = strings.Fields(types)
		}
	}
	return m
}()

// ExtensionFits reports whether a media type is one that the extension of a path
// promises. known tells whether the extension is one that promises anything. The
// path is taken as sent. Where a ";" makes the extension a matter of opinion
// ("/account;x.css", "/x.css;v=1"), the type must fit both opinions.
func ExtensionFits(path, mediaType string) (known, fits bool) {
	segment := path[strings.LastIndexByte(path, '/')+1:]
	before, _, cut := strings.Cut(segment, ";")
	known, fits = extensionFits(segment, mediaType)
	if cut {
		k, f := extensionFits(before, mediaType)
		fits = (fits || !known) && (f || !k) && (known || k)
		known = known || k
	}
	return known, fits
}

func extensionFits(segment, mediaType string) (known, fits bool) {
	dot := strings.LastIndexByte(segment, '.')
	if dot < 0 {
		return false, false
	}
	types, known := extensions[field.Lower(segment[dot+1:])]
	for _, t := range types {
		if strings.HasPrefix(mediaType, t) {
			return true, true
		}
	}
	return known, false
}

// mismatched reports whether a route chosen by extension must not apply: the
// type doesn't fit, or the extension promises nothing and the type is that of a
// page, or none.
func mismatched(path, mediaType string) bool {
	known, fits := ExtensionFits(path, mediaType)
	if known {
		return !fits
	}
	return mediaType == "" || mediaType == "text/html" || mediaType == "application/xhtml+xml"
}
