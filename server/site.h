/* server/site.h
 * Which web pages may use a server that asks for no key. Every page that a browser shows can send requests to this
 * machine; what tells them apart are three headers that pages cannot choose:
 *
 *     Host           the name that the browser looked up. A page whose own name was pointed at 127.0.0.1 (DNS
 *                    rebinding) is of the same origin for the browser, but its name shows here.
 *     Origin         where the page came from, on everything but plain GETs of its own origin.
 *     Content-Type   a page may send forms and text/plain anywhere unasked; JSON only after a preflight, which a
 *                    foreign origin does not get.
 *
 * Functions are pure; the strings of a site must outlive it. */
#ifndef ZINC_SERVER_SITE_H
#define ZINC_SERVER_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct site {
    bool any_name;               /* no browser gets there by a name: a unix socket                       */
    bool any_address;            /* addresses as such are fine: every interface is listened on           */
    const char *bound;           /* the name or address that is listened on; NULL: none                  */
    const char *const *allowed;  /* [n_allowed] further names, without port                              */
    uint32_t n_allowed;
    const char *cors;            /* an origin, or * for all; NULL: none                                  */
};

/* Does this value of Host (NULL: the client sent none, so it is no browser) name this server? */
bool site_host_ok(const struct site *s, const char *host);
/* May a page of this origin ask here, at this Host? NULL: no page of another origin asks. */
bool site_origin_ok(const struct site *s, const char *origin, const char *host);
/* Is it JSON: application/json or ../..+json, with or without parameters? */
bool site_is_json(const char *content_type);

/* The name in a Host value or an URL's authority, without port and brackets, to at most `cap` bytes with the end. False:
 * that is no host and port. */
bool site_name(const char *host, size_t n, char *name, size_t cap);

#endif
