#!/usr/bin/env bash
# The kfd tier on the released model, on the model of an AMD card: a second for each token, so a few.
. tests/real/lib.sh
. tests/real/same_tokens.sh
need_real model
need_amdsim

cat >"$work/zinc" <<RUN
#!/bin/sh
exec "$amdsim" "$zinc" "\$@"
RUN
chmod +x "$work/zinc"
steps=8
for name in $(golden_names '(list-01|prose-03)'); do
    take_prompt "$name" || continue
    zinc=$work/zinc follow "$name" kfd --tier kfd -c 256 && judge "$name" kfd $limit_int8
done
total kfd
finish
