#!/usr/bin/env bash
# torch 2.13.0, gloo: all_reduce with MAX or MIN keeps NaN in some elements and loses it in others, by their places.
# Guessed: NaN everywhere, as torch.maximum. Seen with [NaN, NaN, NaN] on the first of two processes and ones on the
# second: [NaN, NaN, 1] on both; with NaN on the second: [1, 1, NaN]. A check for NaN by such a maximum can miss it.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" torch==2.13.0 numpy==2.4.6
cd "$WORK"
cat >worker.py <<'PY'
import sys

import torch
import torch.distributed as dist

rank, nan, seen = int(sys.argv[1]), float("nan"), []
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
for operation in (dist.ReduceOp.MAX, dist.ReduceOp.MIN):
    for place in (0, 1):
        numbers = torch.tensor([nan if rank == place else 1.0] * 3)
        dist.all_reduce(numbers, op=operation)
        seen.append(numbers.isnan().tolist())
print("process", rank, "NaN after the maximum and the minimum:", seen)
assert seen == [[True, True, False], [False, False, True]] * 2
dist.barrier()
dist.destroy_process_group()
PY
PYTHONPATH=$WORK python3 worker.py 0 "$WORK/store" &
PYTHONPATH=$WORK python3 worker.py 1 "$WORK/store"
wait $!
