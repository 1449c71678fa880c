/* Operations on a prefix tree from bytes, compared with plain arrays (tests/unit/prefix_model.h). */
#include "tests/unit/prefix_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct prefix_model m;
    pm_run(&m, data, MIN(n, 1500));
    pm_finish(&m);
    return 0;
}
