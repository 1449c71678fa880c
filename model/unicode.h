/* model/unicode.h
 * What the tokenizers ask of Unicode: decoding UTF-8 that may be broken, and the coarse class of a code point. The
 * table is pinned to Unicode 15.1 (the one llama.cpp's tables hold), because token ids depend on it. */
#ifndef ZINC_MODEL_UNICODE_H
#define ZINC_MODEL_UNICODE_H

#include <stddef.h>
#include <stdint.h>

enum {
    UC_WS = 1, /* White_Space: never together with another class */
    UC_L = 2,  /* letters      */
    UC_N = 4,  /* numbers      */
    UC_M = 8,  /* marks        */
    UC_P = 16, /* punctuation  */
    UC_S = 32, /* symbols      */
    UNICODE_CODE_POINTS = 0x110000
};

/* The classes of all code points, [UNICODE_CODE_POINTS]; 0 for controls, unassigned code points and the rest. Built on
 * the first call (under a millisecond), from any thread; lives until the program ends. */
const uint8_t *unicode_classes(void);

/* The length of the UTF-8 sequence at s (1..4), its code point in *cp; 0 when s[0] does not begin a complete one within
 * n bytes. Overlong forms and code points above U+10FFFF are rejected; surrogates are taken as three-byte code points,
 * as llama.cpp takes them. n > 0. */
static inline size_t utf8_decode(const char *s, size_t n, uint32_t *cp)
{
    const uint8_t *p = (const uint8_t *)s;
    uint32_t c = p[0];

    if (c < 0x80) {
        *cp = c;
        return 1;
    }
    if (c < 0xc2 || c > 0xf4)
        return 0;
    if (n < 2 || (p[1] & 0xc0) != 0x80)
        return 0;
    if (c < 0xe0) {
        *cp = (c & 0x1f) << 6 | (p[1] & 0x3fu);
        return 2;
    }
    if (n < 3 || (p[2] & 0xc0) != 0x80)
        return 0;
    if (c < 0xf0) {
        *cp = (c & 0x0f) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
        return *cp >= 0x800 ? 3 : 0;
    }
    if (n < 4 || (p[3] & 0xc0) != 0x80)
        return 0;
    *cp = (c & 0x07) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
    return *cp >= 0x10000 && *cp < UNICODE_CODE_POINTS ? 4 : 0;
}

/* Writes cp (below 0x110000) and returns its length, 1..4. */
static inline size_t utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

#endif
