#!/usr/bin/env bash
# zinc chat as people use it: lines on a terminal, history, pastes, /commands and Ctrl-C (chat_terminal.py does the typing).
. tests/e2e/lib.sh
command -v python3 >/dev/null || { echo "no python3, whose pseudo-terminals this needs"; exit 77; }
ldd "$zinc" | grep -q libedit || { echo "zinc is built without libedit"; exit 77; }
make_model qwen3 Q8_0 "$work/m.gguf" || finish
# libedit copies the names of keys' functions (el_set with EL_ADDFN) and frees them nowhere.
echo leak:wcsdup >"$work/leaks"
export LSAN_OPTIONS=suppressions=$work/leaks:print_suppressions=0
python3 -u tests/e2e/chat_terminal.py "$zinc" "$work/m.gguf" "$work" || miss "see above"
finish
