/* What is a request and where it ends, by raw bytes: each case is followed by a second request on the same connection, which
 * must be answered where the first one was understood, and must not be looked at where it was not. At once and byte by
 * byte, over TCP, a unix socket and TLS. */
#include "tests/unit/http_client.h"

#include "tests/lib/run.h"

#define H "Host: localhost\r\n"
#define GET "GET /health HTTP/1.1\r\n"
#define POST "POST /v1/chat/completions HTTP/1.1\r\n" H
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define PROBE "GET /favicon.ico HTTP/1.1\r\n" H "\r\n"
#define SMUGGLED "GET /v1/models HTTP/1.1\r\n" H "\r\n"
#define T(s) s, sizeof(s) - 1

/* want: statuses; the last one with + when the connection goes on. Behind `text` come `unit` so many times and `last`. */
static const struct test_case {
    const char *want, *text;
    size_t n;
    const char *unit;
    unsigned times;
    const char *last;
} cases[] = {
    /* what is fine */
    { "200+", T(GET H "\r\n"), 0, 0, 0 },
    { "200+", T("\r\n" GET H "\r\n"), 0, 0, 0 },
    { "200+", T("\r\n\r\n" GET H "\r\n"), 0, 0, 0 },
    { "200+", T(GET "host:localhost\r\n\r\n"), 0, 0, 0 },
    { "200+", T(GET "HOST:\t localhost \t\r\n\r\n"), 0, 0, 0 },
    { "200+", T(GET H "X:\r\n\r\n"), 0, 0, 0 },
    { "200+", T(GET H "X: a\tb \xc3\xa9 \xff\r\n\r\n"), 0, 0, 0 },
    { "200+", T(GET H "!#$%&'*+-.^_`|~09azAZ: x\r\n\r\n"), 0, 0, 0 },
    { "200+", T("GET /health?x=%00%zz&& HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "200+", T("GET http://localhost/health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "200+", T("GET HTTP://LOCALHOST:80/health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "200+", T(GET H "Connection: keep-alive, x\r\n\r\n"), 0, 0, 0 },
    { "200+", T(GET H "Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n"), 0, 0, 0 },
    { "200+", T(GET H "Content-Length: 0\r\n\r\n"), 0, 0, 0 },
    { "200+", T(GET H "Content-Length: 3\r\n\r\nabc"), 0, 0, 0 },
    { "200", T(GET H "Connection: close\r\n\r\n"), 0, 0, 0 },
    { "200", T(GET H "Connection: foo, Close\r\n\r\n"), 0, 0, 0 },
    { "200", T("GET /health HTTP/1.0\r\n\r\n"), 0, 0, 0 },
    { "200+", T("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), 0, 0, 0 },
    { "200", T("GET /health HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n"), 0, 0, 0 },
    { "200 200+", T(GET H "\r\n" GET H "\r\n"), 0, 0, 0 },
    { "200+", T(POST "Content-Length: 5\r\n\r\nwhole"), 0, 0, 0 },
    { "200+", T(POST "Content-Length: 6\r\n\r\nstream"), 0, 0, 0 },
    { "200+", T(POST "Content-Length: 005\r\n\r\nwhole"), 0, 0, 0 },
    { "200+", T(POST "Content-Length:5\r\n\r\nwhole"), 0, 0, 0 },
    { "200+", T(POST "Content-Length: 5 \r\n\r\nwhole"), 0, 0, 0 },
    { "200+", T(POST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nwhole"), 0, 0, 0 },
    { "200 200 200+", T(POST "Content-Length: 6\r\n\r\nstream" POST "Content-Length: 5\r\n\r\nwhole" GET H "\r\n"), 0, 0, 0 },
    { "200+", T(CHUNKED "5\r\nwhole\r\n0\r\n\r\n"), 0, 0, 0 },
    { "200+", T(CHUNKED "0\r\n\r\n"), 0, 0, 0 },
    { "200+", T(CHUNKED "000a\r\nwhole 1234\r\n00\r\n\r\n"), 0, 0, 0 },
    { "200+", T(CHUNKED "A\r\nwhole 1234\r\na\r\n1234567890\r\n0\r\n\r\n"), 0, 0, 0 },
    { "200+", T(CHUNKED "1\r\nw\r\n1\r\nh\r\n1\r\no\r\n1\r\nl\r\n1\r\ne\r\n0\r\n\r\n"), 0, 0, 0 },
    { "200+", T(CHUNKED "5;x=y\r\nwhole\r\n0;a=\"b c\"\r\n\r\n"), 0, 0, 0 },
    { "200+", T(CHUNKED "5\r\nwhole\r\n0\r\nT: 1\r\nU:\r\n\r\n"), 0, 0, 0 },
    { "200+", T(POST "Transfer-Encoding: CHUNKED\r\n\r\n5\r\nwhole\r\n0\r\n\r\n"), 0, 0, 0 },
    { "200+", T(POST "transfer-encoding:chunked \r\n\r\n5\r\nwhole\r\n0\r\n\r\n"), 0, 0, 0 },
    { "200+", T("GET /health?"), "a=b&", 1000, " HTTP/1.1\r\n" H "\r\n" },
    { "200+", T(GET H), "X: y\r\n", 99, "\r\n" },
    { "200+", T(GET H "X: "), "0123456789abcdef", 4000, "\r\n\r\n" },
    { "200+", T("GET /health?"), "0123456789abcdef", 500, " HTTP/1.1\r\n" H "\r\n" },
    { "200+", T(CHUNKED "5;"), "x", 250, "\r\nwhole\r\n0\r\n\r\n" },
    /* understood, and refused: the connection goes on */
    { "404+", T("GET /nothing HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "404+", T("OPTIONS * HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "404+", T("GET //health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "404+", T("GET /health/ HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "404+", T("GET /../health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "404+", T("POST /nothing HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc"), 0, 0, 0 },
    { "405+", T("DELETE /health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "405+", T("get /health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "405+", T("POST /health HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc"), 0, 0, 0 },
    { "405+", T("GET /v1/chat/completions HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400+", T("GET /%00 HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400+", T("GET /%zz HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400+", T("GET /% HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400+", T("GET /%ff HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "415+", T(POST "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"), 0, 0, 0 },
    { "413+", T(POST "Content-Length: 2000\r\n\r\n"), "0123456789", 200, "" },
    { "413+", T(CHUNKED "7d0\r\n"), "0123456789", 200, "\r\n0\r\n\r\n" },
    /* understood, and the connection ends all the same */
    { "411", T(POST "\r\n"), 0, 0, 0 },
    { "411", T(POST "\r\n{\"a\":1}"), 0, 0, 0 },
    { "411", T("POST /v1/chat/completions HTTP/1.0\r\n" H "\r\n"), 0, 0, 0 },
    { "413", T(POST "Content-Length: 99999\r\n\r\n"), 0, 0, 0 },
    { "413", T(POST "Content-Length: 99999999999999999999999999\r\n\r\n"), 0, 0, 0 },
    { "413", T(POST "Content-Length: 18446744073709551616\r\n\r\n"), 0, 0, 0 },
    { "404", T("POST /nothing HTTP/1.1\r\n" H "Content-Length: 30\r\nExpect: 100-continue\r\n\r\n"), 0, 0, 0 },
    /* request lines */
    { "400", T("GET /health\r\n\r\n"), 0, 0, 0 },
    { "400", T("GET  /health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /health  HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /health HTTP/1.1 \r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET\t/health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /health\tHTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T(" GET /health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /health HTTP/1.1 x\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /he alth HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /health http/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /health HTTP/1.10\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /health HTTP/1.2\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /health HTTP/0.9\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /health HTTP/2.0\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /health HTTP/9.9\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /health HTTP/11\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /health HTTX/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0, 0, 0 },
    { "400", T("G(T /health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("G\xc3\xa9T /health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("ABCDEFGHIJKLMNOPQRSTUVWXYZ /health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /h\xc3\xa9 HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET ftp://localhost/health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET http://localhost HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET http:///health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET http://a@localhost/health HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET * HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("CONNECT localhost:80 HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("HTTP/1.1 200 OK\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("{\"messages\":[]}\r\n\r\n"), 0, 0, 0 },
    { "400", T("GET /\x01 HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /\0 HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /\x7f HTTP/1.1\r\n" H "\r\n"), 0, 0, 0 },
    { "400", T(""), "\r\n", 20, GET H "\r\n" },
    { "414", T("GET /"), "0123456789abcdef", 520, " HTTP/1.1\r\n" H "\r\n" },
    /* ends of lines */
    { "400", T("GET /health HTTP/1.1\n" H "\r\n"), 0, 0, 0 },
    { "400", T("GET /health HTTP/1.1\nHost: localhost\n\n"), 0, 0, 0 },
    { "400", T(GET H "X: y\n\r\n"), 0, 0, 0 },
    { "400", T(GET H "X: y\r\n\n"), 0, 0, 0 },
    { "400", T(GET H "X: y\rZ: w\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET H "X: y\r\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET H "\r\r\n"), 0, 0, 0 },
    { "400", T("\n" GET H "\r\n"), 0, 0, 0 },
    { "400", T("\r" GET H "\r\n"), 0, 0, 0 },
    { "400", T(POST "Content-Length: 68\rX: y\r\n\r\n" SMUGGLED), 0, 0, 0 },
    { "400", T(POST "X: y\rContent-Length: 45\r\n\r\n" SMUGGLED), 0, 0, 0 },
    /* names and folds */
    { "400", T(POST "Content-Length : 45\r\n\r\n" SMUGGLED), 0, 0, 0 },
    { "400", T(POST "Content-Length\t: 45\r\n\r\n" SMUGGLED), 0, 0, 0 },
    { "400", T(POST "Content Length: 45\r\n\r\n" SMUGGLED), 0, 0, 0 },
    { "400", T(POST " Content-Length: 45\r\n\r\n" SMUGGLED), 0, 0, 0 },
    { "400", T(POST "X: y\r\n Content-Length: 45\r\n\r\n" SMUGGLED), 0, 0, 0 },
    { "400", T(POST "Content-Length:\r\n 45\r\n\r\n" SMUGGLED), 0, 0, 0 },
    { "400", T(POST "Content-Length: 4\r\n\t5\r\n\r\n" SMUGGLED), 0, 0, 0 },
    { "400", T(POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" SMUGGLED), 0, 0, 0 },
    { "400", T(POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" SMUGGLED), 0, 0, 0 },
    { "400", T(GET " Host: localhost\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET H ": empty\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET H "No-Colon\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET H "X(y): z\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET H "X\xc3\xa9: z\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET H "X\0: z\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET H "X: a\0b\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET H "X: a\x1b[0m\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET H "X: a\x7f\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET H "X: a\x0b\r\n\r\n"), 0, 0, 0 },
    { "431", T(GET H), "X: y\r\n", 100, "\r\n" },
    { "431", T(GET H "X: "), "0123456789abcdef", 4200, "\r\n\r\n" },
    { "431", T(GET H), "X: 0123456789abcdef0123456789abcdef\r\n", 2000, "\r\n" },
    /* Host */
    { "400", T(GET "\r\n"), 0, 0, 0 },
    { "400", T(GET "X: y\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET H H "\r\n"), 0, 0, 0 },
    { "400", T("GET /health HTTP/1.0\r\n" H "host: other\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET "Host:\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET "Host: local host\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET "Host: localhost, other\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET "Host: localhost:port\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET "Host: localhost:99999\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET "Host: http://localhost\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET "Host: a@localhost\r\n\r\n"), 0, 0, 0 },
    { "400", T(GET "Host: [::1\r\n\r\n"), 0, 0, 0 },
    { "400", T("GET http://localhost/health HTTP/1.1\r\n\r\n"), 0, 0, 0 },
    /* lengths */
    { "400", T(POST "Content-Length: -1\r\n\r\n"), 0, 0, 0 },
    { "400", T(POST "Content-Length: +5\r\n\r\nwhole"), 0, 0, 0 },
    { "400", T(POST "Content-Length: 0x5\r\n\r\nwhole"), 0, 0, 0 },
    { "400", T(POST "Content-Length: 5.0\r\n\r\nwhole"), 0, 0, 0 },
    { "400", T(POST "Content-Length: 5 5\r\n\r\nwhole"), 0, 0, 0 },
    { "400", T(POST "Content-Length: 5, 5\r\n\r\nwhole"), 0, 0, 0 },
    { "400", T(POST "Content-Length: \r\n\r\nwhole"), 0, 0, 0 },
    { "400", T(POST "Content-Length: five\r\n\r\nwhole"), 0, 0, 0 },
    { "400", T(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nwhole"), 0, 0, 0 },
    { "400", T(POST "Content-Length: 5\r\ncontent-length: 0\r\n\r\nwhole"), 0, 0, 0 },
    { "400", T(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(POST "Transfer-Encoding: gzip\r\n\r\nabc"), 0, 0, 0 },
    { "400", T(POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(POST "Transfer-Encoding:\r\n\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T("POST /v1/chat/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 0, 0, 0 },
    { "417", T(POST "Expect: 200-ok\r\nContent-Length: 5\r\n\r\nwhole"), 0, 0, 0 },
    /* chunks */
    { "400", T(CHUNKED "xyz\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "-5\r\nwhole\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "0x5\r\nwhole\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED " 5\r\nwhole\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "5 \r\nwhole\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "5\nwhole\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "5\r\nwhole\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "5\r\nwhole0\r\n\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "3\r\nwhole\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "5\rwhole\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "5\r\nwhole\r\n0\r\n \r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "5\r\nwhole\r\n0\r\n: x\r\n\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "5\r\nwhole\r\n0\r\nno colon\r\n\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "5\r\nwhole\r\n0\r\nT : 1\r\n\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "5\r\nwhole\r\n0\r\nT: \0\r\n\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "5\r\nwhole\r\n0\r\n" SMUGGLED), 0, 0, 0 },
    { "400", T(CHUNKED "5;\x01\r\nwhole\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "5;x\nwhole\r\n0\r\n\r\n"), 0, 0, 0 },
    { "400", T(CHUNKED "5;"), "x", 3000, "\r\nwhole\r\n0\r\n\r\n" },
    { "413", T(CHUNKED "ffffffffffffffff\r\n"), 0, 0, 0 },
    { "413", T(CHUNKED "10000000000000005\r\nwhole\r\n0\r\n\r\n"), 0, 0, 0 },
    { "431", T(CHUNKED "0\r\n"), "T: 1\r\n", 1000, "\r\n" },
    /* behind a good one */
    { "200 400", T(GET H "\r\nGET / HTTP/7.0\r\n\r\n"), 0, 0, 0 },
    { "200 400", T(POST "Content-Length: 6\r\n\r\nstream" POST "Content-Length : 45\r\n\r\n" SMUGGLED), 0, 0, 0 },
    { "200 200 400", T(GET H "\r\n" CHUNKED "5\r\nwhole\r\n0\r\n\r\n" GET H " folded: x\r\n\r\n"), 0, 0, 0 },
    { "200 411", T(GET H "\r\n" POST "\r\n"), 0, 0, 0 },
    { "404 400", T("GET /nothing HTTP/1.1\r\n" H "\r\n" "XXXX\r\n\r\n"), 0, 0, 0 },
};

static char *case_text(const struct test_case *k, size_t *n)
{
    size_t unit = k->unit ? strlen(k->unit) : 0, last = k->last ? strlen(k->last) : 0;
    char *s = malloc(k->n + unit * k->times + last + sizeof PROBE), *at = s;
    at = (char *)memcpy(at, k->text, k->n) + k->n;
    for (unsigned i = 0; i < k->times; i++)
        at = (char *)memcpy(at, k->unit, unit) + unit;
    if (last)
        at = (char *)memcpy(at, k->last, last) + last;
    at = (char *)memcpy(at, PROBE, sizeof PROBE - 1) + sizeof PROBE - 1;
    *n = (size_t)(at - s);
    return s;
}

static void check_answer(size_t i, int want, int status, const char *head, const char *body, bool last, bool goes_on)
{
    ck_assert_msg(status == want, "case %zu '%.70s': %d instead of %d", i, cases[i].text, status, want);
    ck_assert_msg(strstr(head, "\r\nDate: ") && strstr(head, "\r\nServer: zinc/"), "case %zu: %s", i, head);
    if (status >= 400)
        ck_assert_msg(strstr(head, "\r\nContent-Type: application/json\r\n") && strncmp(body, "{\"error\":{", 10) == 0 &&
                          !strstr(body, "HTTP/1.1 4"), "case %zu: not our form: %s%s", i, head, body);
    bool told = strstr(head, "\r\nConnection: close\r\n");
    ck_assert_msg(told == (last && !goes_on), "case %zu '%.70s': Connection: close is %s", i, cases[i].text,
                  told ? "told" : "missing");
}

static void run_case(size_t i, size_t piece)
{
    const struct test_case *k = &cases[i];
    struct client *c = client_open(1);
    char *head, *body, *end;
    size_t n;
    char *text = case_text(k, &n);
    uint32_t before = api_calls, calls = 0;
    bool goes_on = strchr(k->want, '+');
    client_send(c, text, n, piece);
    for (const char *w = k->want; *w; w = *end ? end + 1 : end) {
        int want = (int)strtol(w, &end, 10), status = client_answer(c, &head, &body);
        ck_assert_msg(status > 0, "case %zu '%.70s': %d instead of %d", i, k->text, status, want);
        check_answer(i, want, status, head, body, !*end || *end == '+', goes_on);
        free(head);
        free(body);
    }
    if (goes_on) {
        ck_assert_msg(client_answer(c, &head, &body) == 200 && strstr(head, "image/svg"), "case %zu '%.70s': no second answer",
                      i, k->text);
        free(head);
        free(body);
    } else {
        while (client_more(c))
            ;
        ck_assert_msg(c->n == c->at, "case %zu '%.70s': after the last answer: %.60s", i, k->text, c->got + c->at);
    }
    for (const char *s = k->text; strncmp(k->want, "200", 3) == 0 && (s = strstr(s, "POST /v1")); s++)
        calls++;
    ck_assert_msg(api_calls - before <= calls, "case %zu '%.70s': the API was called %u times", i, k->text, api_calls - before);
    client_close(c);
    free(text);
}

static void run_all(enum transport over, size_t piece)
{
    ck_assert_uint_ge(ARRAY_LEN(cases), 130);
    server_start(over, (struct server_opts){ .threads = 1, .max_body = 1500 });
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        run_case(i, cases[i].times && piece == 1 ? 7 : piece);
    server_finish();
}

START_TEST(over_tcp)
{
    run_all(OVER_TCP, SIZE_MAX);
}
END_TEST
START_TEST(over_tcp_byte_by_byte)
{
    run_all(OVER_TCP, 1);
}
END_TEST
START_TEST(over_a_unix_socket)
{
    run_all(OVER_UNIX, SIZE_MAX);
}
END_TEST
START_TEST(over_tls)
{
    run_all(OVER_TLS, SIZE_MAX);
}
END_TEST
START_TEST(over_tls_in_small_records)
{
    run_all(OVER_TLS, 11);
}
END_TEST

START_TEST(what_is_no_http_is_told_so)
{
    char *head, *body;
    server_start(OVER_TCP, (struct server_opts){ .threads = 1 });
    struct client *c = client_open(1);
    client_send(c, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11, 11);
    ck_assert_int_eq(client_answer(c, &head, &body), 400);
    ck_assert_msg(strstr(body, "--tls-cert"), "%s", body);
    ck_assert(!client_more(c));
    free(head);
    free(body);
    client_close(c);
    c = client_open(1); /* a byte is enough to know, and the rest is not waited for */
    client_send(c, "GET /\x01", 6, 6);
    ck_assert_int_eq(client_answer(c, &head, &body), 400);
    free(head);
    free(body);
    client_close(c);
    server_finish();
}
END_TEST

/* Many requests in one piece are answered one after the other, whoever reads late. */
START_TEST(pipelines_are_answered_in_order)
{
    enum { N = 500 };
    char text[200], *all = malloc(N * sizeof text), *head, *body;
    for (enum transport over = OVER_TCP; over <= OVER_TLS; over++) {
        server_start(over, (struct server_opts){ .threads = 2 });
        struct client *c = client_open(1);
        size_t n = 0;
        for (int i = 0; i < N; i++) {
            int len = snprintf(text, sizeof text, "%s %d", i % 3 ? "whole" : "stream", i);
            n += (size_t)sprintf(all + n, POST "Content-Length: %d\r\n\r\n%s", len, text);
        }
        client_send(c, all, n, SIZE_MAX);
        for (int i = 0; i < N; i++) {
            snprintf(text, sizeof text, "%s %d", i % 3 ? "whole" : "stream", i);
            ck_assert_int_eq(client_answer(c, &head, &body), 200);
            ck_assert_msg(strstr(body, text), "answer %d: %s", i, body);
            free(head);
            free(body);
        }
        client_close(c);
        server_finish();
    }
    free(all);
}
END_TEST

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    return RUN_TESTS("http_framing", over_tcp, over_tcp_byte_by_byte, over_a_unix_socket, over_tls, over_tls_in_small_records,
                     what_is_no_http_is_told_so, pipelines_are_answered_in_order);
}
