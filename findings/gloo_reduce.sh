#!/usr/bin/env bash
# torch 2.13.0, gloo: reduce writes partial sums into the tensors of processes that are not its destination.
# Guessed: these keep their numbers. Seen: two processes with [0, 1, 2, 3] and [10, 11, 12, 13] reduce to the first,
# and the second has [10, 11, 14, 16] afterwards.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" torch==2.13.0 numpy==2.4.6
cd "$WORK"
cat >worker.py <<'PY'
import sys

import torch
import torch.distributed as dist

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
numbers = torch.arange(4.0) + 10 * rank
dist.reduce(numbers, dst=0)
print("process", rank, "has", numbers.tolist())
assert numbers.tolist() == ([10.0, 12.0, 14.0, 16.0], [10.0, 11.0, 14.0, 16.0])[rank]
dist.barrier()
dist.destroy_process_group()
PY
PYTHONPATH=$WORK python3 worker.py 0 "$WORK/store" &
PYTHONPATH=$WORK python3 worker.py 1 "$WORK/store"
wait $!
