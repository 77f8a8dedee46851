package main

import "github.com/weirhttp/weir/cachekey"

// The rules of a shop. Each is a function of nothing, so a test can ask it what a
// URL means without a server, a cache or an origin.

// pageRules are for what visitors read: advertising parameters make no other
// page, the language cookie does, and no other cookie matters.
func pageRules() (*cachekey.Spec, error) {
	return cachekey.New(cachekey.Options{
		Query:            cachekey.Exclude(cachekey.CommonTrackingParams()...),
		Cookies:          []string{"lang"},
		DropOtherCookies: true,
		Normalize: map[string]cachekey.Normalizer{
			"Accept-Encoding": cachekey.AcceptEncoding("br", "gzip"),
			"Accept-Language": cachekey.AcceptLanguage("en", "de", "fr"),
		},
	})
}

// listRules are for product lists: five parameters exist, and a request with
// another isn't worth a place in the cache.
func listRules() (*cachekey.Spec, error) {
	return cachekey.New(cachekey.Options{
		Query:     cachekey.Include("category", "color", "page", "size", "sort"),
		OnUnknown: cachekey.Bypass,
	})
}

// assetRules are for files with a hash in their name: the query means nothing.
func assetRules() (*cachekey.Spec, error) {
	return cachekey.New(cachekey.Options{
		Query:            cachekey.None(),
		DropOtherCookies: true,
	})
}
