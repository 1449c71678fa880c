#include "server/site.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { NAME_CAP = 256, HTTP_PORT = 80, HTTPS_PORT = 443 };

/* ---- names ---- */

/* Host and port as they stand in Host, an Origin and URLs; *port stays as it is where none is told. */
static bool split(const char *s, size_t n, char *name, size_t cap, uint32_t *port)
{
    const char *end = s + n, *at = s, *close = n && *s == '[' ? memchr(s, ']', n) : NULL;
    if (n && *s == '[' && !close)
        return false;
    if (close)
        at = close + 1;
    else
        while (at < end && *at != ':')
            at++;
    size_t from = close ? 1 : 0, len = (size_t)(at - s) - 2 * from;
    while (!close && len && s[len - 1] == '.') /* "localhost." is localhost */
        len--;
    if (!len || len >= cap || (close && !memchr(s, ':', len)))
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[from + i];
        if (c <= ' ' || c >= 0x7f || strchr(close ? "/\\@\"<>[]?#" : "/\\@\"<>[]?#:", c))
            return false;
        name[i] = (char)c;
    }
    name[len] = 0;
    if (at == end)
        return true;
    if (*at++ != ':' || end - at > 5)
        return false;
    uint32_t v = 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        v = v * 10 + (uint32_t)(*at - '0');
    }
    if (end[-1] != ':')
        *port = v;
    return v < 65536;
}

bool site_name(const char *host, size_t n, char *name, size_t cap)
{
    uint32_t port;
    return split(host, n, name, cap, &port);
}

enum address { NO_ADDRESS, LOOPBACK, OTHER_ADDRESS };

static enum address address_of(const char *name)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, name, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127 ? LOOPBACK : OTHER_ADDRESS;
    if (inet_pton(AF_INET6, name, &v6) != 1)
        return NO_ADDRESS;
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127) ? LOOPBACK : OTHER_ADDRESS;
}

/* RFC 6761: these never leave the machine, whatever a name server says. */
static bool is_localhost(const char *name)
{
    size_t n = strlen(name), len = strlen("localhost");
    return n >= len && strcasecmp(name + n - len, "localhost") == 0 && (n == len || name[n - len - 1] == '.');
}

bool site_host_ok(const struct site *s, const char *host)
{
    char name[NAME_CAP];
    if (!host || s->any_name)
        return true;
    if (!site_name(host, strlen(host), name, sizeof name))
        return false;
    enum address a = address_of(name);
    if (a == LOOPBACK || is_localhost(name) || (a == OTHER_ADDRESS && s->any_address) ||
        (s->bound && strcasecmp(name, s->bound) == 0))
        return true;
    for (uint32_t i = 0; i < s->n_allowed; i++)
        if (strcasecmp(name, s->allowed[i]) == 0)
            return true;
    return false;
}

bool site_origin_ok(const struct site *s, const char *origin, const char *host)
{
    char from[NAME_CAP], here[NAME_CAP];
    if (!origin || (s->cors && (strcmp(s->cors, "*") == 0 || strcasecmp(s->cors, origin) == 0)))
        return true;
    /* The page of this server. A proxy may have taken TLS away, so of the scheme only the port counts. */
    uint32_t port = strncasecmp(origin, "http://", 7) == 0 ? HTTP_PORT : HTTPS_PORT, port_here = port;
    size_t scheme = strncasecmp(origin, "http://", 7) == 0 ? 7 : strncasecmp(origin, "https://", 8) == 0 ? 8 : 0;
    return scheme && host && split(origin + scheme, strlen(origin + scheme), from, sizeof from, &port) &&
           split(host, strlen(host), here, sizeof here, &port_here) && strcasecmp(from, here) == 0 && port == port_here;
}

bool site_is_json(const char *content_type)
{
    const char *s = content_type + strspn(content_type, " \t");
    size_t n = strcspn(s, "; \t,");
    const char *rest = s + n + strspn(s + n, " \t");
    if ((*rest && *rest != ';') || strchr(rest, ','))
        return false;
    return (n == strlen("application/json") && strncasecmp(s, "application/json", n) == 0) ||
           (n > strlen("application/+json") && strncasecmp(s, "application/", 12) == 0 &&
            strncasecmp(s + n - 5, "+json", 5) == 0);
}
