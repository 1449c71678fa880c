#include "tools/amdsim/isa/group.h"
struct strict *strict_create(void) { return NULL; }
void strict_destroy(struct strict *s) { }
void strict_mark_initial(struct wave *w, uint32_t n_user, uint32_t n_vgpr) { }
bool strict_check(struct wave *w, const struct inst *in) { return true; }
