/* rt/auto_file.h
 * What --tier=auto keeps of its measurement (rt/auto.h), as text: a line that says what the file is, a line with all that the order
 * depends on, and a line for each way to the card, "umq 12.34" (microseconds of a small step) or "vulkan failed". The file is the
 * user's and may hold anything. */
#ifndef ZINC_RT_AUTO_FILE_H
#define ZINC_RT_AUTO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AUTO_FILE_BYTES = 4096, AUTO_NAME_BYTES = 16 };

struct auto_time {
    const char *name; /* of the tier: lower case, shorter than AUTO_NAME_BYTES        */
    double us;        /* of a step; 0: unknown, below 0: it failed when it was tried  */
};

/* Fills in the times of exactly these n ways. NULL, or what is wrong with the text; the times are then all 0. `text` and `key` are
 * strings; the key is one line. */
const char *auto_file_read(const char *text, const char *key, struct auto_time *t, uint32_t n);
/* The length of the text, without its NUL; 0: it does not fit in cap. */
size_t auto_file_write(char *text, size_t cap, const char *key, const struct auto_time *t, uint32_t n);
/* For people, whatever the key is: "umq 12.34, kfd 15.00"; "" when the text makes no sense. */
void auto_file_describe(const char *text, char *out, size_t n);

#endif
