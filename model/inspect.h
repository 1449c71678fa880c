/* model/inspect.h
 * What a GGUF file is, for people and for programs: family, shapes, parameters, tensor types, context, tokenizer. A
 * file that zinc cannot run (a vocabulary, an unknown family) is described as far as its metadata goes, with the
 * reason. Names from the file are shown with control characters, direction marks and broken UTF-8 as \xNN. */
#ifndef ZINC_MODEL_INSPECT_H
#define ZINC_MODEL_INSPECT_H

#include <stdbool.h>
#include <stdio.h>

#include "model/gguf.h"

/* Lines of "label  value"; then, with `tensors`, a table of all tensors. 0, or -EIO when `f` took no more. */
int inspect_print(FILE *f, const struct gguf *g, bool tensors);

/* One JSON object, indented, with a newline at the end. Sizes in bytes; absent things are left out; "runs" is whether
 * zinc reads the model, "why_not" the reason otherwise. 0, or an error of json_print (base/json.h). */
int inspect_json(FILE *f, const struct gguf *g, bool tensors);

#endif
