#include "model/unicode.h"

#include <pthread.h>

#include "base/ckd.h"

struct run {
    uint32_t first, group;
};

static const struct run runs[] = {
#define R(first, group) {first, group},
#include "model/gen/unicode_15_1.inc"
#undef R
};

/* The property White_Space of PropList.txt. */
static const uint16_t white_space[] = {
    0x09,   0x0a,   0x0b,   0x0c,   0x0d,   0x20,   0x85,   0xa0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003,
    0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000,
};

static uint8_t classes[UNICODE_CODE_POINTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void build(void)
{
    static const uint8_t of_group[8] = {0, UC_L, UC_N, UC_M, UC_P, UC_S, 0, 0};

    for (size_t i = 0; i < ARRAY_LEN(runs); i++) {
        uint32_t end = i + 1 < ARRAY_LEN(runs) ? runs[i + 1].first : UNICODE_CODE_POINTS;
        uint8_t cls = of_group[runs[i].group];
        for (uint32_t c = runs[i].first; cls && c < end; c++)
            classes[c] = cls;
    }
    for (size_t i = 0; i < ARRAY_LEN(white_space); i++)
        classes[white_space[i]] = UC_WS;
}

const uint8_t *unicode_classes(void)
{
    pthread_once(&once, build);
    return classes;
}
