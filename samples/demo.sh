#!/bin/sh
# The main job, end to end: a model through the eight filters to CUDA, run on real arrays, the result checked and printed.
set -eu
model=$1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

echo "$ tiny-front < $model | tiny-index | tiny-poly | tiny-region | tiny-plan | tiny-gpu | tiny-cu > k.cu"
tiny-front < "$model" | tiny-index | tiny-poly | tiny-region | tiny-plan | tiny-gpu | tiny-cu > "$here/k.cu"
echo "$ grep '^// ' k.cu | head -30"
grep '^// ' "$here/k.cu" | head -30
echo "$ tiny-run k.cu --random 7 --check --out out.npz"
tiny-run "$here/k.cu" --random 7 --check --out "$here/out.npz"
echo "demo: done"
