/* tests/lib/mark_point.c
 * Check writes the place of each assertion that holds to a file, for what it says of a test that dies, and reads them all
 * back at the end, moving the rest of its buffer to the front after each. With the address sanitizer, whose memmove goes byte
 * by byte, that was half of the time of tests that assert in loops. There the sanitizer says where something died, and a
 * line is written the first time alone (the linker's --wrap, mk/tests.mk). */
#include <check.h>
#include <stdatomic.h>

void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);

void __wrap__mark_point(const char *file, int line)
{
    static atomic_uchar seen[1 << 13];
    if (!atomic_exchange_explicit(&seen[(unsigned)line % sizeof seen], 1, memory_order_relaxed))
        __real__mark_point(file, line);
}
