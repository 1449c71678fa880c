/* Structs that may grow, and buffers of the caller's. */
#include <string.h>

#include "base/ckd.h"
#include "lib/priv.h"

int done(int rc, const struct err *own, zinc_error *e)
{
    if (rc < 0 && e) {
        e->code = rc;
        snprintf(e->text, sizeof e->text, "%s", own->msg[0] ? own->msg : strerror(-rc));
    }
    return rc;
}

int struct_take(void *own, size_t bytes, size_t least, const void *given, const char *name, struct err *e)
{
    size_t size = 0;
    memset(own, 0, bytes);
    if (!given)
        return 0;
    memcpy(&size, given, sizeof size);
    if (size < least || size > 1 << 20)
        return err_set(e, -EINVAL, "libzinc: %s->size is %zu, expected sizeof: %zu or more", name, size, least);
    for (size_t i = bytes; i < size; i++)
        if (((const char *)given)[i])
            return err_set(
                e, -E2BIG,
                "libzinc: %s has a field at byte %zu that libzinc %s does not know (take the library that belongs "
                "to the header)",
                name, i, ZINC_VERSION);
    memcpy(own, given, MIN(size, bytes));
    return 0;
}

int struct_give(const void *own, size_t bytes, void *out, const char *name, struct err *e)
{
    size_t size = 0;
    if (!out)
        return err_set(e, -EINVAL, "libzinc: %s is NULL", name);
    memcpy(&size, out, sizeof size);
    if (size < 2 * sizeof size || size > 1 << 20)
        return err_set(e, -EINVAL, "libzinc: %s->size is %zu, expected sizeof", name, size);
    memset((char *)out + sizeof size, 0, size - sizeof size);
    memcpy((char *)out + sizeof size, (const char *)own + sizeof size, MIN(size, bytes) - sizeof size);
    return 0;
}

int array_give(const void *from, size_t n, size_t bytes, void *to, size_t cap, size_t *n_out, struct err *e)
{
    if (n_out)
        *n_out = n;
    if (!to && !cap)
        return n_out ? 0 : err_set(e, -EINVAL, "libzinc: neither a buffer nor a place for the length was given");
    if (!to)
        return err_set(e, -EINVAL, "libzinc: the buffer for %zu is NULL", cap);
    if (n > cap)
        return err_set(e, -ERANGE, "libzinc: the buffer has room for %zu, %zu are needed", cap, n);
    if (n)
        memcpy(to, from, n * bytes);
    return 0;
}
