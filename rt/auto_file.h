/* rt/auto_file.h
 * What a measurement found once, as a file in zinc's cache folder: a line that says what the file is, a line with all that the times
 * depend on, and a line for each choice, "umq 12.34" (microseconds of a step) or "vulkan failed". The ways to an AMD card (rt/auto.h)
 * and the kinds of plan (engine/plan_trial.h) are kept like that. The file is the user's and may hold anything. */
#ifndef ZINC_RT_AUTO_FILE_H
#define ZINC_RT_AUTO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cache.h"

enum { AUTO_FILE_BYTES = 4096, AUTO_NAME_BYTES = 16 };

struct auto_time {
    const char *name; /* of the choice: lower case, shorter than AUTO_NAME_BYTES      */
    double us;        /* of a step; 0: unknown, below 0: it failed when it was tried  */
};

/* The text. Fills in the times of exactly these n choices. NULL, or what is wrong with it; the times are then all 0. `text` and
 * `key` are strings; the key is one line. */
const char *auto_file_read(const char *text, const char *key, struct auto_time *t, uint32_t n);
/* The length of the text, without its NUL; 0: it does not fit in cap. */
size_t auto_file_write(char *text, size_t cap, const char *key, const struct auto_time *t, uint32_t n);
/* For people, whatever the key is: "umq 12.34, kfd 15.00"; "" when the text makes no sense. */
void auto_file_describe(const char *text, char *out, size_t n);

/* The file of that name. false: there is none, or none for this key, which the log says. path: where it is, or would be; "" where
 * there is no cache folder. */
bool auto_file_load(const char *name, const char *key, struct auto_time *t, uint32_t n, char path[CACHE_PATH]);
/* What cannot be kept is measured again at the next start, and the log says so. */
void auto_file_keep(const char *name, const char *key, const struct auto_time *t, uint32_t n);
/* As auto_file_describe; path as above. */
void auto_file_tell(const char *name, char *out, size_t n, char path[CACHE_PATH]);

#endif
