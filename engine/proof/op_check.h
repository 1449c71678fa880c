/* engine/proof/op_check.h: is a case of the op table right on a tier? The reference is the cpu tier's --exact. */
#ifndef ZINC_PROOF_OP_CHECK_H
#define ZINC_PROOF_OP_CHECK_H

#include "engine/proof/op_cases.h"

/* Ids agree, floats by the normalised mean square error, all of them finite. false: why[n] says where. */
bool op_is_close(const struct op_case *c, const struct ops_result *got, const struct ops_result *want, char *why, size_t n);
/* The same bits. */
bool op_is_same(const struct ops_result *got, const struct ops_result *want, char *why, size_t n);

enum op_verdict { OP_RIGHT, OP_WRONG, OP_UNSUPPORTED };

/* Runs the case at once and again with its first row alone, which takes the kernels for a single row: close to exact,
 * and the same bits. */
enum op_verdict op_check(const struct op_case *c, const char *tier, char *why, size_t n);

/* Kernels for few rows and for many are different ones (kernels/klaunch.h), chosen by a stream's capacity: the i-th other
 * case that belongs to one of many rows, of few rows or by a prompt's kernels. false: there are no more. name [96] is for
 * the new name. */
bool op_variant(const struct op_case *c, uint32_t i, struct op_case *other, char name[96]);

#endif
