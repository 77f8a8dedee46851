package cachekey

// CommonTrackingParams returns the names of 22 well-known query parameters that
// advertising networks and mail campaigns add to links: the utm_* family, click
// identifiers and campaign identifiers. The list is offered, never applied by
// itself:
//
//	cachekey.Options{Query: cachekey.Exclude(cachekey.CommonTrackingParams()...)}
//
// Each call returns a fresh slice that the caller may change.
func CommonTrackingParams() []string {
	return []string{
		// Campaign labels, read by scripts in the page.
		"utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content", "utm_id",
		// Click identifiers of Google's networks.
		"gclid", "gclsrc", "dclid", "gbraid", "wbraid",
		// Click identifiers of Meta, Microsoft, TikTok, X, LinkedIn and Yandex.
		"fbclid", "igshid", "msclkid", "ttclid", "twclid", "li_fat_id", "yclid",
		// Mail campaigns of Mailchimp and HubSpot.
		"mc_cid", "mc_eid", "_hsenc", "_hsmi",
	}
}
