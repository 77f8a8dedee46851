// Command keyrules shows how a team writes its cache-key rules down (rules.go),
// tests them (rules_test.go) and asks them about a URL:
//
//	go run ./examples/keyrules 'https://shop.test/shoes?page=2&utm_source=mail'
//	go run ./examples/keyrules -rules list 'https://shop.test/list?page=2&cb=1'
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"

	"github.com/weirhttp/weir/cachekey"
)

func main() {
	name := flag.String("rules", "page", "rules to apply: page, list or asset")
	flag.Parse()
	if err := run(*name, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "keyrules:", err)
		os.Exit(1)
	}
}

func run(name string, urls []string) error {
	rules := map[string]func() (*cachekey.Spec, error){
		"page": pageRules, "list": listRules, "asset": assetRules,
	}[name]
	if rules == nil {
		return fmt.Errorf("no rules are called %q: use page, list or asset", name)
	}
	spec, err := rules()
	if err != nil {
		return err
	}
	if len(urls) == 0 {
		return fmt.Errorf("give one or more URLs")
	}
	for _, url := range urls {
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n%s\n", url, spec.Explain(&cachekey.Input{Request: r}))
	}
	return nil
}
