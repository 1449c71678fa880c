/* server/api_fields.h
 * Reading what a request says, field by field. Whatever is wrong is told once, as clients want to read it. */
#ifndef ZINC_SERVER_API_FIELDS_H
#define ZINC_SERVER_API_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Why a request is answered with an error. */
struct api_problem {
    int status;
    uint32_t retry_after; /* seconds, 0: does not say                 */
    const char *code;     /* static, NULL: none                       */
    char param[128];      /* the field, "": none in particular        */
    char message[640];
};

/* Sets *p and returns -EINVAL, so that a refusal reads: return api_refuse(...). `param` may be NULL. */
__attribute__((cold, format(printf, 5, 6))) int api_refuse(struct api_problem *p, int status, const char *code,
                                                           const char *param, const char *fmt, ...);

/* An object of the request, and what it is called there: "" for the request itself, else "messages[2]". */
struct fields {
    const json_t *o;
    char path[96];
    struct api_problem *p;
};

struct fields fields_at(const json_t *o, struct api_problem *p, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* "path.name", for api_refuse; lives until the next call in this thread. */
const char *fields_name(const struct fields *f, const char *name);

/* Refusals of a field with status 400: its value is of the wrong type, or wrong in another way. Names are as in
 * fields_name; name "" is the object itself. */
int field_type(const struct fields *f, const char *name, const char *expected, const json_t *v);
__attribute__((cold, format(printf, 3, 4))) int field_value(const struct fields *f, const char *name, const char *fmt,
                                                            ...);
/* 0 if it is an object at all. */
int fields_check(const struct fields *f);

/* Each returns 1 with *out when the field is there, 0 when it is not or is null (*out stays), and -EINVAL when it is of
 * another type or out of its range. */
int field_bool(const struct fields *f, const char *name, bool *out);
int field_int(const struct fields *f, const char *name, int64_t lo, int64_t hi, int64_t *out);
int field_real(const struct fields *f, const char *name, double lo, double hi, double *out);
int field_string(const struct fields *f, const char *name, const char **out);
int field_object(const struct fields *f, const char *name, const json_t **out);
int field_array(const struct fields *f, const char *name, const json_t **out);

/* "an object", "a string", ... */
const char *json_kind(const json_t *v);

/* The text as a JSON object with limits on its depth; NULL with *p set: status 400. */
json_t *api_parse(const char *body, size_t n, struct api_problem *p);

#endif
