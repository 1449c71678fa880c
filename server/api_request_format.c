/* What an answer must be: response_format, json_schema and grammar. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/api_request.h"

/* One constraint at a time. `text` NULL: none is needed. */
static int want(const struct fields *f, struct api_request *r, const char *param, enum answer_format format,
                const char *text)
{
    if (r->format_param)
        return field_value(f, param, "cannot be given together with '%s'", r->format_param);
    r->format = format;
    r->schema = text;
    r->format_param = param;
    return 0;
}

int api_request_schema(const struct fields *f, struct api_request *r, const char *param, const json_t *schema)
{
    char *text = json_write(schema, JSON_COMPACT | JSON_ENCODE_ANY);
    int rc = api_request_own(r, text, f->p);
    return rc ? rc : want(f, r, param, ANSWER_JSON_SCHEMA, text);
}

/* {"type":"json_schema","json_schema":{"schema":{..}}}, or with the schema beside `type` as llama.cpp has it. */
static int read_schema_format(const struct fields *f, const struct fields *format, struct api_request *r)
{
    const json_t *outer, *schema = NULL;
    int rc = field_object(format, "json_schema", &outer);
    if (rc < 0)
        return rc;
    struct fields inner = fields_at(rc ? outer : format->o, f->p, "response_format%s", rc ? ".json_schema" : "");
    const char *unused;
    if ((rc = field_string(&inner, "name", &unused)) < 0 || (rc = field_string(&inner, "description", &unused)) < 0 ||
        (rc = field_bool(&inner, "strict", &r->strict)) < 0 || (rc = field_object(&inner, "schema", &schema)) < 0)
        return rc;
    if (!rc)
        return api_refuse(f->p, 400, "missing_field", "response_format",
                          "'response_format' of type json_schema has no 'json_schema.schema'");
    return api_request_schema(f, r, "response_format", schema);
}

static int read_response_format(const struct fields *f, struct api_request *r)
{
    const json_t *o, *schema;
    const char *type = NULL;
    int rc = field_object(f, "response_format", &o);
    if (rc != 1)
        return rc;
    struct fields format = fields_at(o, f->p, "response_format");
    if ((rc = field_string(&format, "type", &type)) < 0)
        return rc;
    if (!type)
        return api_refuse(f->p, 400, "missing_field", "response_format.type", "'response_format' has no 'type'");
    if (strcmp(type, "text") == 0)
        return 0;
    if (strcmp(type, "json_schema") == 0)
        return read_schema_format(f, &format, r);
    if (strcmp(type, "json_object") != 0)
        return field_value(&format, "type", "is '%.64s', expected text, json_object or json_schema", type);
    if ((rc = field_object(&format, "schema", &schema)) < 0)
        return rc;
    return rc ? api_request_schema(f, r, "response_format", schema)
              : want(f, r, "response_format", ANSWER_JSON_OBJECT, NULL);
}

int api_request_format(const struct fields *f, struct api_request *r)
{
    const json_t *schema;
    const char *grammar;
    int rc = read_response_format(f, r);
    if (rc < 0 || (rc = field_object(f, "json_schema", &schema)) < 0)
        return rc;
    if (rc && (rc = api_request_schema(f, r, "json_schema", schema)) < 0)
        return rc;
    if ((rc = field_string(f, "grammar", &grammar)) < 0)
        return rc;
    return rc && *grammar ? want(f, r, "grammar", ANSWER_GRAMMAR, grammar) : 0;
}
