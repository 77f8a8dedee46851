package cachekey

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExplain(t *testing.T) {
	s := mustSpec(t, Options{
		Query: Exclude("gclid"), Headers: []string{"RSC", "Accept-Language"}, Cookies: []string{"ab"}, DropOtherCookies: true,
		Normalize: map[string]Normalizer{"Accept-Language": AcceptLanguage("en", "de")},
	})
	in := &Input{Request: request("https://a.test/p?page=2&gclid=7&gclid=8;page=3", "Cookie: session=secret; ab=1; x")}
	e := s.Explain(in)
	key, _ := s.Primary(in)
	assert.Equal(t, s.Text(in), e.Text)
	assert.Equal(t, key, e.Key)
	assert.Equal(t, NoProblem, e.Problem)
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(e.String()), "\n") {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	assert.Equal(t, []string{
		`keyed scheme "https": The scheme is always keyed.`,
		`keyed host "a.test": The host is always keyed, in lower case and without the default port.`,
		`keyed method "GET": The method class is always keyed; GET stands for HEAD too.`,
		`keyed path "/p": The path is always keyed, as sent.`,
		`keyed q page="2": The rules key every parameter but those they list.`,
		`keyed q gclid="8;page=3": The rules leave this parameter out, but an origin may read other parameters in it.`,
		`keyed h accept-language="en": The rules key this header field, normalised.`,
		`keyed h rsc (absent): The rules key this header field.`,
		`keyed c ab="1": The rules key this cookie.`,
		`dropped q gclid="7": The rules exclude this parameter; the request that fills the cache goes without it.`,
		`dropped c session: The rules don't key this cookie; the request that fills the cache goes without it.`,
		`dropped c x: The rules don't key this cookie; the request that fills the cache goes without it.`,
		`text ` + e.Text,
		`key ` + key.String(),
	}, lines)
	assert.NotContains(t, e.String(), "secret", "cookies outside the key keep their values to themselves")
}

func TestExplainGivesAReasonForEachDroppedPart(t *testing.T) {
	cases := []struct {
		name    string
		options Options
		reason  string
		problem Problem
	}{
		{"none", Options{Query: None()}, "The rules key no parameter; the request that fills the cache goes without it.", 0},
		{"unlisted", Options{Query: Include("a")}, "The rules don't list this parameter; the request that fills the cache goes without it.", 0},
		{"unlisted, still sent", Options{Query: Include("a"), KeepUnkeyedInputs: true},
			"The rules don't list this parameter; the origin is sent it all the same.", 0},
		{"bypass", Options{Query: Include("a"), OnUnknown: Bypass}, "The rules don't list this parameter and refuse to cache with it.", UnknownParameter},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := mustSpec(t, c.options).Explain(&Input{Request: request("http://a.test/?z=1")})
			require.NotEmpty(t, e.Parts)
			assert.Equal(t, Part{Ingredient{Kind: KindQuery, Name: "z", Value: "1"}, false, c.reason}, e.Parts[len(e.Parts)-1])
			assert.Equal(t, c.problem, e.Problem)
			assert.Equal(t, c.problem != NoProblem, e.Key.IsZero())
			assert.Equal(t, c.problem != NoProblem, strings.Contains(e.String(), "no key"))
		})
	}
	data, err := json.Marshal(mustSpec(t, Options{Query: Include("a"), OnUnknown: Bypass}).Explain(&Input{Request: request("http://a.test/?z=1")}))
	require.NoError(t, err)
	assert.Contains(t, string(data), `"problem":"The query has a parameter that the key rules don't list."`)
	assert.Contains(t, string(data), `{"kind":"q","name":"z","value":"1","state":"valued","kept":false,"reason":"The rules don't list`)
	empty := mustSpec(t, Options{Query: Include("a")}).Explain(&Input{Request: request("http://a.test/?a&")})
	assert.Contains(t, empty.String(), "There is no parameter between these separators")
	cookie := Default().Explain(&Input{Request: request("http://a.test/", "Cookie: a=1")})
	assert.Contains(t, cookie.String(), "it stays in the request")
	keyed := mustSpec(t, Options{Headers: []string{"Cookie"}}).Explain(&Input{Request: request("http://a.test/", "Cookie: a=1")})
	assert.NotContains(t, keyed.String(), "dropped")
	many := Default().Explain(&Input{Request: request("http://a.test/?" + manyParameters(100))})
	assert.Len(t, many.Parts, 104, strconv.Itoa(len(many.Parts)))
}
