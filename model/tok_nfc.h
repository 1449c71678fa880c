/* model/tok_nfc.h
 * Unicode's normalization form C, which some models' training text was in: "e" and a combining acute become the one
 * letter, and marks stand in one order. Pinned to Unicode 15.1, like the classes of model/unicode.h. Bytes that are
 * not UTF-8 stay as they are and belong to no character. */
#ifndef ZINC_MODEL_TOK_NFC_H
#define ZINC_MODEL_TOK_NFC_H

#include <stdbool.h>
#include <stddef.h>

#include "model/tok_buf.h"

/* Whether s[0..n) has a character that NFC might change; nearly no text has, and this is a quick look. */
bool tok_nfc_needed(const char *s, size_t n);

/* Appends the normalized s[0..n) to *out; time grows with n, whatever the text. -ENOMEM. */
int tok_nfc(const char *s, size_t n, struct tok_buf *out);

#endif
