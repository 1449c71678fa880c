#!/usr/bin/env bash
# tinygrad's tensor operations against numpy, and its queues, on the model of a gfx1100: tinygrad.sh says how.
. tests/real/lib.sh
. tests/real/tinygrad.sh
tinygrad_card gfx1100 1
finish
