#!/usr/bin/env bash
# The vulkan tier on the released model, on Mesa's lavapipe unless VK_DRIVER_FILES names another driver.
. tests/real/lib.sh
. tests/real/same_tokens.sh
need_real model
need_vulkan

steps=20
for name in $(golden_names '(list-01|prose-03|lang-04)'); do
    take_prompt "$name" || continue
    follow "$name" vulkan --tier vulkan -c 256 && judge "$name" vulkan $limit_int8
done
total vulkan
finish
