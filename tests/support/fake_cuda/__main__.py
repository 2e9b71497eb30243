"""Run cases, by their numbers in `CASES`, and print a line of JSON for each."""

from __future__ import annotations

import sys

from support.fake_cuda import shim

shim.load()

import json  # noqa: E402
import logging  # noqa: E402
import traceback  # noqa: E402
import warnings  # noqa: E402

import torch  # noqa: E402

warnings.filterwarnings("ignore")
logging.disable(logging.ERROR)

import fairseq  # noqa: E402, F401  before the package, which then registers itself

import deepnmt  # noqa: E402, F401
from support.fake_cuda.cases import cases, run  # noqa: E402

torch.set_num_threads(1)
selected = cases()
for number in map(int, sys.argv[1:]):
    name, case = selected[number]
    try:
        faults, figures = run(case)
    except Exception as error:
        lines = str(error).splitlines() or [""]
        frame = traceback.extract_tb(error.__traceback__)[-1]
        faults, figures = [f"{type(error).__name__}: {lines[0]} ({frame.filename}:{frame.lineno})"], {}
    print(json.dumps({"name": name, "faults": faults, **figures}), flush=True)
