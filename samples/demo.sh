#!/bin/sh
# The main job, end to end: a model through the eight filters to CUDA, run on real arrays, the result checked against fp64 NumPy.
set -eu
root=$(dirname "$0")/..
model=samples/gemm_bias_relu/gemm_bias_relu.json
python=$root/.venv/bin/python
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$root"

step() { printf '\n$ %s\n' "$1"; }

step "tiny-front < $model | tiny-index | tiny-poly | tiny-region | tiny-plan | tiny-gpu | tiny-cu > k.cu"
tiny-front < "$model" | tiny-index | tiny-poly | tiny-region | tiny-plan | tiny-gpu | tiny-cu > "$folder/k.cu"
grep -c '' "$folder/k.cu" | sed 's/$/ lines of CUDA; the kernel of them:/'
sed -n '/^extern "C"/,/^{/p' "$folder/k.cu"

step "tiny-run k.cu --inputs in.npz --out out.npz        # A[300, 100] @ B[100, 200] + bias[200], random"
"$python" - "$folder" <<'PY'
import sys
import numpy as np
draw = np.random.default_rng(7)
shapes = {"A": (300, 100), "B": (100, 200), "bias": (200,)}
np.savez(sys.argv[1] + "/in.npz", **{name: draw.standard_normal(shape).astype(np.float16) for name, shape in shapes.items()})
PY
tiny-run "$folder/k.cu" --inputs "$folder/in.npz" --out "$folder/out.npz"

step "python: relu(A @ B + bias) in fp64 against out.npz"
"$python" - "$folder" <<'PY'
import sys
import numpy as np
given, found = np.load(sys.argv[1] + "/in.npz"), np.load(sys.argv[1] + "/out.npz")["C2"].astype(np.float64)
wanted = np.maximum(given["A"].astype(np.float64) @ given["B"].astype(np.float64) + given["bias"].astype(np.float64), 0)
print(np.array2string(found[:3, :6], precision=4, suppress_small=True))
print(f"{found.size} elements, largest difference {np.abs(found - wanted).max():.2e}")
if found.shape != wanted.shape or not np.allclose(found, wanted, rtol=1e-3, atol=1e-3):
    sys.exit("demo: WRONG, beyond rtol = atol = 1e-3")
print("demo: right, within rtol = atol = 1e-3")
PY
