// The origin of the tests: pages as a server-rendered application in Node
// gives them, and what goes wrong with them. The first segment of the path
// selects what happens, the rest only tells requests apart. The path /_/ is the
// tests' own way to see and steer it:
//
//   /_/seen?url=U     how often U was asked for, and how many were cut off
//   /_/release?url=U  lets everything for U that waits go on, once for each call
'use strict';
const http = require('node:http');
const zlib = require('node:zlib');

const seen = new Map(); // by URL
function stateOf(url) {
  if (!seen.has(url)) {
    seen.set(url, { count: 0, cut: 0, headers: [], bodies: [], steps: 0, waiting: [] });
  }
  return seen.get(url);
}

// released resolves when the test lets the URL go on.
function released(state) {
  if (state.steps > 0) {
    state.steps--;
    return Promise.resolve();
  }
  return new Promise((resolve) => state.waiting.push(resolve));
}

function control(req, res) {
  const u = new URL(req.url, 'http://origin');
  const state = stateOf(u.searchParams.get('url'));
  if (u.pathname === '/_/release') {
    if (state.waiting.length === 0) state.steps++;
    for (const go of state.waiting.splice(0)) go();
  }
  const { count, cut, headers, bodies } = state;
  res.end(JSON.stringify({ count, cut, headers, bodies, waiting: state.waiting.length }));
}

const text = { 'Content-Type': 'text/html; charset=utf-8' };
const shared = { ...text, 'Cache-Control': 'public, max-age=60' };

// raw answers with these bytes and then closes the connection.
function raw(res, head, body) {
  res.socket.end(head.join('\r\n') + '\r\n\r\n' + body);
}

const pages = {
  // An ordinary page that may be cached.
  page(req, res, state) {
    res.writeHead(200, { ...shared, ETag: '"v' + state.count + '"' });
    res.end('page ' + state.count + '\n');
  },
  // A page that says nothing about caching.
  plain(req, res, state) {
    res.writeHead(200, text);
    res.end('page ' + state.count + '\n');
  },
  // A page that is usable for a while after it's stale.
  swr(req, res, state) {
    const head = { ...text, 'Cache-Control': 'max-age=1, stale-while-revalidate=60' };
    const answer = () => {
      res.writeHead(200, head);
      res.end('page ' + state.count + '\n');
    };
    if (state.count === 1) answer();
    else released(state).then(answer);
  },
  // The first answer is a page with stale-if-error, all others are errors.
  failing(req, res, state) {
    const fails = state.count > 1;
    res.writeHead(fails ? 503 : 200, { ...text, 'Cache-Control': fails ? 'no-cache' : 'max-age=1, stale-if-error=60' });
    res.end(fails ? 'down\n' : 'page\n');
  },
  // Nothing at all until the test lets it, then a page that may be cached.
  late(req, res, state) {
    released(state).then(() => {
      res.writeHead(200, shared);
      res.end('page ' + state.count + '\n');
    });
  },
  // As late, but each visitor gets a cookie.
  visitor(req, res, state) {
    const n = state.count;
    released(state).then(() => {
      res.writeHead(200, { ...text, 'Cache-Control': 'max-age=60', 'Set-Cookie': 'visitor=' + n });
      res.end('visitor ' + n + '\n');
    });
  },
  // As late, but only for this client.
  private(req, res, state) {
    const n = state.count;
    released(state).then(() => {
      res.writeHead(200, { ...text, 'Cache-Control': 'private, max-age=60' });
      res.end('visitor ' + n + '\n');
    });
  },
  // The head and a first part at once, the rest when the test lets it.
  slow(req, res, state) {
    res.writeHead(200, shared);
    res.write('first part, ');
    released(state).then(() => res.end('second part\n'));
  },
  // As slow, with a length that is known.
  slowsized(req, res, state) {
    res.writeHead(200, { ...shared, 'Content-Length': 24 });
    res.write('first part, ');
    released(state).then(() => res.end('second part\n'));
  },
  // As slow, but nobody else may have it.
  slowprivate(req, res, state) {
    res.writeHead(200, { ...text, 'Cache-Control': 'no-store' });
    res.write('first part, ');
    released(state).then(() => res.end('second part\n'));
  },
  trailers(req, res) {
    res.writeHead(200, { ...shared, Trailer: 'X-Sum' });
    res.write('a body ');
    res.addTrailers({ 'X-Sum': '7' });
    res.end('with a trailer\n');
  },
  hints(req, res, state) {
    res.writeEarlyHints({ link: '</style.css>; rel=preload; as=style', 'x-hint': 'yes' });
    released(state).then(() => {
      res.writeHead(200, shared);
      res.end('a page with hints\n');
    });
  },
  cookie(req, res) {
    res.writeHead(200, { ...shared, Vary: 'Cookie' });
    res.end('cookie ' + (req.headers.cookie || 'none') + '\n');
  },
  language(req, res) {
    res.writeHead(200, { ...shared, Vary: 'Accept-Language' });
    res.end('language ' + (req.headers['accept-language'] || 'none') + '\n');
  },
  packed(req, res) {
    const body = 'this compresses rather well. '.repeat(5000);
    const head = { ...shared, Vary: 'Accept-Encoding' };
    if (!/\bgzip\b(?!;q=0)/.test(req.headers['accept-encoding'] || '')) {
      res.writeHead(200, head);
      res.end(body);
      return;
    }
    res.writeHead(200, { ...head, 'Content-Encoding': 'gzip' });
    const gzip = zlib.createGzip();
    gzip.pipe(res);
    gzip.end(body);
  },
  status(req, res, state) {
    res.writeHead(Number(req.url.split('/')[2]), text);
    res.end('error ' + state.count + '\n');
  },
  // Breaks off in the middle, with and without a length.
  abort(req, res, state) {
    res.writeHead(200, { ...shared, 'Content-Length': 100000 });
    res.write('x'.repeat(50000));
    released(state).then(() => res.socket.destroy());
  },
  abortchunked(req, res, state) {
    res.writeHead(200, shared);
    res.write('x'.repeat(50000));
    released(state).then(() => res.socket.destroy());
  },
  // No answer, only a closed connection.
  gone(req, res) {
    res.socket.destroy();
  },
  short(req, res) {
    raw(res, ['HTTP/1.1 200 OK', 'Content-Type: text/plain', 'Cache-Control: max-age=60', 'Content-Length: 10'], 'short');
  },
  long(req, res) {
    raw(res, ['HTTP/1.1 200 OK', 'Content-Type: text/plain', 'Cache-Control: max-age=60', 'Content-Length: 5'], 'longer than it says');
  },
  duplicate(req, res) {
    raw(res, ['HTTP/1.1 200 OK', 'Cache-Control: max-age=60', 'Content-Length: 5', 'Content-Length: 6'], 'hello!');
  },
  negative(req, res) {
    raw(res, ['HTTP/1.1 200 OK', 'Cache-Control: max-age=60', 'Content-Length: -5'], 'hello');
  },
  nonsense(req, res) {
    raw(res, ['nonsense', 'Cache-Control: max-age=60'], 'hello');
  },
  badchunk(req, res) {
    raw(res, ['HTTP/1.1 200 OK', 'Cache-Control: max-age=60', 'Transfer-Encoding: chunked'], '5\r\nhello\r\nzz\r\n');
  },
  // A megabyte of header: in one field, and in thousands.
  bighead(req, res) {
    raw(res, ['HTTP/1.1 200 OK', 'Cache-Control: max-age=60', 'X-Big: ' + 'x'.repeat(1 << 20), 'Content-Length: 5'], 'hello');
  },
  manyheads(req, res) {
    const many = Array.from({ length: 10000 }, (_, i) => 'X-Field-' + i + ': ' + 'y'.repeat(100));
    raw(res, ['HTTP/1.1 200 OK', 'Cache-Control: max-age=60', ...many, 'Content-Length: 5'], 'hello');
  },
  // A body without end, as fast as it's taken.
  endless(req, res) {
    const storable = req.url.includes('storable');
    res.writeHead(200, storable ? shared : { ...text, 'Cache-Control': 'no-store' });
    const block = Buffer.alloc(16 << 10, 'x');
    const more = () => {
      while (!res.destroyed && res.write(block));
    };
    res.on('drain', more);
    more();
  },
  // An event each time the test lets it.
  events(req, res, state) {
    res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
    res.flushHeaders();
    let n = 0;
    const next = () => {
      if (res.destroyed) return;
      res.write('data: event ' + ++n + '\n\n');
      released(state).then(next);
    };
    released(state).then(next);
  },
  // Reads the body and tells what it was.
  post(req, res, state) {
    let body = '';
    req.on('data', (d) => (body += d));
    req.on('end', () => {
      state.bodies.push(body);
      res.writeHead(req.method === 'GET' ? 200 : 201, shared);
      res.end(req.method + ' ' + state.count + ' ' + body.length + '\n');
    });
  },
  // Refuses a body without having seen it.
  refuse(req, res) {
    res.writeHead(413, text);
    res.end('too much\n');
  },
};

function answer(req, res) {
  if (req.url.startsWith('/_/')) return control(req, res);
  const page = pages[req.url.split(/[/?]/)[1]];
  const state = stateOf(req.url);
  state.count++;
  state.headers.push(req.headers);
  res.on('close', () => {
    if (!res.writableFinished) state.cut++;
  });
  res.on('error', () => {});
  if (page) return page(req, res, state);
  res.writeHead(404, text);
  res.end('no such page\n');
}

const server = http.createServer(answer);
server.on('checkContinue', (req, res) => {
  if (!req.url.startsWith('/refuse/')) res.writeContinue();
  answer(req, res);
});
// Echoes whatever comes after the upgrade, unless it's declined.
server.on('upgrade', (req, socket, head) => {
  const state = stateOf(req.url);
  state.count++;
  socket.on('error', () => {});
  socket.on('close', () => state.cut++);
  if (req.url.startsWith('/declined/')) {
    socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nno thanks');
    return;
  }
  socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ' + req.headers.upgrade + '\r\nSec-WebSocket-Accept: x\r\n\r\n');
  if (head.length > 0) socket.write(head);
  socket.on('data', (d) => socket.write(d));
  socket.on('end', () => socket.end());
});
server.keepAliveTimeout = 60000;
server.listen(0, '127.0.0.1', () => console.log('listening on ' + server.address().port));
process.stdin.resume();
process.stdin.on('end', () => process.exit(0)); // the tests are gone
