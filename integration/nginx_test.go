package integration

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// site is an nginx that serves files.
type site struct {
	t      *testing.T
	nginx  string
	dir    string // has conf, logs and html
	addr   string
	url    string
	client *http.Client
	asked  int // sentinels so far
	files  map[string]string
	*process
}

// hit is a request in nginx's log.
type hit struct {
	method, uri, status             string
	ifNoneMatch, ifModified, ranges string
	acceptEncoding                  string
}

const nginxConf = `
worker_processes 1;
daemon off;
master_process off;
pid DIR/nginx.pid;
error_log DIR/error.log;
events { worker_connections 512; }
http {
  types { text/plain txt; text/html html; text/css css; application/octet-stream bin; }
  client_body_temp_path DIR/tmp-body; proxy_temp_path DIR/tmp-proxy; fastcgi_temp_path DIR/tmp-f;
  uwsgi_temp_path DIR/tmp-u; scgi_temp_path DIR/tmp-s;
  log_format tests escape=none '$request_method\t$request_uri\t$status\t$http_if_none_match\t$http_if_modified_since\t$http_range\t$http_accept_encoding';
  access_log DIR/access.log tests;
  absolute_redirect off;
  keepalive_requests 100000;
  server {
    listen ADDR;
    root DIR/html;
    expires 1h;
    location /gzip/   { gzip on; gzip_vary on; gzip_proxied any; gzip_min_length 100; gzip_types text/plain text/css; }
    location /static/ { gzip_static on; gzip_vary on; gzip_proxied any; }
    location /short/  { expires 1s; }
    location /must/   { expires off; add_header Cache-Control "max-age=1, must-revalidate"; }
    location /swr/    { expires off; add_header Cache-Control "max-age=1, stale-while-revalidate=600"; }
    location /off/    { expires off; }
    location /never/  { expires epoch; }
    location /private/ { expires off; add_header Cache-Control "private, max-age=600"; }
    location = /moved { return 301 /a.txt; }
    location = /sentinel { return 204; }
  }
}
`

// startSite runs nginx over a few files.
func startSite(t *testing.T) *site {
	t.Helper()
	nginx := need(t, "nginx", "apt-get install nginx-light", "/usr/sbin/nginx")
	s := &site{t: t, nginx: nginx, dir: t.TempDir(), addr: "127.0.0.1:" + freePort(t), client: newClient(t), files: map[string]string{}}
	s.url = "http://" + s.addr
	conf := strings.NewReplacer("DIR", s.dir, "ADDR", s.addr).Replace(nginxConf)
	writeFile(t, filepath.Join(s.dir, "nginx.conf"), conf)
	text := strings.Repeat("a line of text that compresses well\n", 2845) // 100 KB
	noise := make([]byte, 5<<20)
	chacha := rand.NewChaCha8([32]byte{1})
	_, _ = chacha.Read(noise)
	for name, content := range map[string]string{
		"a.txt": "hello\n", "empty.txt": "", "mid.txt": text, "mid.bin": string(noise[:100<<10]), "big.bin": string(noise),
		"style.css": "body { color: red }\n", "gzip/text.txt": text, "static/text.txt": text,
		"short/a.txt": "short\n", "must/a.txt": "must\n", "swr/a.txt": "swr\n", "private/a.txt": "private\n", "never/a.txt": "never\n",
		"off/page.html": "<p>page\n", "off/style.css": "p { color: red }\n", "off/page.txt": "text\n",
	} {
		s.write(name, content)
	}
	writeFile(t, filepath.Join(s.dir, "html/static/text.txt.gz"), string(packed(t, text)))
	require.NoError(t, os.MkdirAll(filepath.Join(s.dir, "html/empty"), 0o755))
	s.up()
	return s
}

// write puts a file there that was last changed ten days ago, or later with
// each replacement. It appears at once and whole.
func (s *site) write(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.dir, "html", name)
	require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o755))
	changed := time.Now().Add(-240 * time.Hour)
	if _, again := s.files[name]; again {
		changed = time.Now().Add(-24 * time.Hour)
	}
	temp := filepath.Join(s.dir, "new")
	writeFile(s.t, temp, content)
	require.NoError(s.t, os.Chtimes(temp, changed, changed))
	require.NoError(s.t, os.Rename(temp, path))
	s.files[name] = content
}

// up starts nginx, at first or again.
func (s *site) up() {
	s.t.Helper()
	s.process = start(s.t, false, s.nginx, "-p", s.dir, "-c", filepath.Join(s.dir, "nginx.conf"), "-e", filepath.Join(s.dir, "error.log"))
	eventually(s.t, "nginx listens", func() bool {
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// down stops nginx.
func (s *site) down() {
	s.t.Helper()
	s.client.CloseIdleConnections()
	s.stop(s.t)
}

// hits returns the requests that nginx has got for a path. nginx, which does
// one thing at a time here, logs a request when it has ended; so it's asked for
// something itself and everything before that is what came before.
func (s *site) hits(path string) []hit {
	s.t.Helper()
	s.asked++
	sentinel := fmt.Sprintf("/sentinel?n=%d", s.asked)
	_, err := testnet.Do(s.client, http.MethodGet, s.url+sentinel)
	require.NoError(s.t, err)
	var all []hit
	eventually(s.t, "the sentinel is in nginx's log", func() bool {
		all = all[:0]
		log, err := os.ReadFile(filepath.Join(s.dir, "access.log"))
		require.NoError(s.t, err)
		seen := false
		for line := range strings.Lines(string(log)) {
			f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			require.Len(s.t, f, 7, "a line of nginx's log: %q", line)
			seen = seen || f[1] == sentinel
			if f[1] == path {
				all = append(all, hit{f[0], f[1], f[2], f[3], f[4], f[5], f[6]})
			}
		}
		return seen
	})
	return all
}

// file is the content of a file of the site.
func (s *site) file(name string) string {
	content, ok := s.files[name]
	require.True(s.t, ok, "no file %s", name)
	return content
}
