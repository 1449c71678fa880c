/* server/router/pick.h
 * What a router has to know of a request's body: which model it asks for, and whether it wants a stream. The body is read
 * once from end to end without a tree, however deep or long it is; what is wrong with it is for the model's process to say.
 * Pure; any bytes are fine. */
#ifndef ZINC_SERVER_ROUTER_PICK_H
#define ZINC_SERVER_ROUTER_PICK_H

#include <stdbool.h>
#include <stddef.h>

enum { PICK_NAME = 512 };

struct pick {
    char model[PICK_NAME]; /* "": the body has no "model" that is a string, or a longer one */
    int stream;            /* "stream": 1 true, 0 false; -1: it does not say                */
};

/* Of the outermost object; of a key that stands there twice the last one counts, as for Jansson. */
void pick_read(const char *s, size_t n, struct pick *out);
/* `model` of a query "a=b&model=NAME", with %XX and + taken back; false: it has none. */
bool pick_query(const char *query, char model[PICK_NAME]);

#endif
