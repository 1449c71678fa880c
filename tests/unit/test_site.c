/* Which pages a server without keys answers: by Host, Origin and Content-Type. */
#include "base/ckd.h"
#include "server/site.h"
#include "tests/lib/run.h"

static const char *const names[] = { "chat.example.com", "gpu-box" };
static const struct site loopback = { .bound = "127.0.0.1" };
static const struct site named = { .bound = "127.0.0.1", .allowed = names, .n_allowed = 2 };
static const struct site open_to_all = { .bound = "0.0.0.0", .any_address = true };
static const struct site bound = { .bound = "192.168.7.7" };
static const struct site on_unix = { .any_name = true };

START_TEST(hosts)
{
    static const struct {
        const char *host;
        bool loopback, named, open, bound;
    } list[] = {
        { NULL, 1, 1, 1, 1 },
        { "localhost", 1, 1, 1, 1 },
        { "LocalHost:8080", 1, 1, 1, 1 },
        { "localhost.", 1, 1, 1, 1 },
        { "app.localhost:1", 1, 1, 1, 1 },
        { "127.0.0.1:8080", 1, 1, 1, 1 },
        { "127.9.9.9", 1, 1, 1, 1 },
        { "[::1]:8080", 1, 1, 1, 1 },
        { "[::ffff:127.0.0.1]", 1, 1, 1, 1 },
        { "192.168.7.7", 0, 0, 1, 1 },
        { "192.168.7.8:80", 0, 0, 1, 0 },
        { "[2001:db8::1]", 0, 0, 1, 0 },
        { "chat.example.com", 0, 1, 0, 0 },
        { "CHAT.example.com:443", 0, 1, 0, 0 },
        { "gpu-box:8080", 0, 1, 0, 0 },
        { "evil.example", 0, 0, 0, 0 },
        { "evil.example:8080", 0, 0, 0, 0 },
        { "evillocalhost", 0, 0, 0, 0 },
        { "localhost.evil.example", 0, 0, 0, 0 },
        { "127.0.0.1.evil.example", 0, 0, 0, 0 },
        { "127.1", 0, 0, 0, 0 }, /* browsers write out what they mean */
        { "a@localhost", 0, 0, 0, 0 },
        { "localhost:80:80", 0, 0, 0, 0 },
        { "localhost:99999", 0, 0, 0, 0 },
        { "localhost:x", 0, 0, 0, 0 },
        { "[::1", 0, 0, 0, 0 },
        { "", 0, 0, 0, 0 },
        { "x.chat.example.com", 0, 0, 0, 0 },
    };
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        const char *host = list[i].host;
        ck_assert_msg(site_host_ok(&loopback, host) == list[i].loopback, "%s", host);
        ck_assert_msg(site_host_ok(&named, host) == list[i].named, "%s", host);
        ck_assert_msg(site_host_ok(&open_to_all, host) == list[i].open, "%s", host);
        ck_assert_msg(site_host_ok(&bound, host) == list[i].bound, "%s", host);
        ck_assert(site_host_ok(&on_unix, host));
    }
}
END_TEST

START_TEST(origins)
{
    static const struct {
        bool ok;
        const char *cors, *origin, *host;
    } list[] = {
        { 1, NULL, NULL, "localhost" },
        { 1, NULL, "http://localhost:8080", "localhost:8080" },
        { 1, NULL, "http://LOCALHOST:8080", "localhost:8080" },
        { 1, NULL, "http://localhost", "localhost:80" },
        { 1, NULL, "https://chat.example.com", "chat.example.com" }, /* behind a proxy that speaks TLS */
        { 1, NULL, "https://chat.example.com", "chat.example.com:443" },
        { 1, NULL, "http://[::1]:8080", "[::1]:8080" },
        { 0, NULL, "http://localhost:3000", "localhost:8080" },
        { 0, NULL, "http://127.0.0.1:8080", "localhost:8080" },
        { 0, NULL, "https://evil.example", "localhost:8080" },
        { 0, NULL, "http://localhost:8080.evil.example", "localhost:8080" },
        { 0, NULL, "null", "localhost:8080" },
        { 0, NULL, "", "localhost:8080" },
        { 0, NULL, "file://", "localhost:8080" },
        { 0, NULL, "http://localhost:8080", NULL },
        { 1, "*", "https://evil.example", "localhost:8080" },
        { 1, "*", "null", "localhost:8080" },
        { 1, "https://a.example", "https://a.example", "localhost:8080" },
        { 0, "https://a.example", "https://b.example", "localhost:8080" },
        { 0, "https://a.example", "http://a.example", "localhost:8080" },
    };
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        struct site s = { .cors = list[i].cors };
        ck_assert_msg(site_origin_ok(&s, list[i].origin, list[i].host) == list[i].ok, "%s at %s", list[i].origin,
                      list[i].host);
    }
}
END_TEST

START_TEST(content_types)
{
    static const char *const json[] = { "application/json", "Application/JSON; charset=utf-8", "application/json ;a=b",
                                        "application/problem+json", " application/json" };
    static const char *const other[] = { "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "",
                                         "text/plain; application/json", "application/json, text/plain",
                                         "application/jsonx", "text/x+json", "application/+json", "json",
                                         "text/plain;application/json" };
    for (size_t i = 0; i < ARRAY_LEN(json); i++)
        ck_assert_msg(site_is_json(json[i]), "%s", json[i]);
    for (size_t i = 0; i < ARRAY_LEN(other); i++)
        ck_assert_msg(!site_is_json(other[i]), "%s", other[i]);
}
END_TEST

int main(void)
{
    return RUN_TESTS("site", hosts, origins, content_types);
}
