"""The server that trainings are forked from imports this, and so has done once what each of them would do anew."""

from __future__ import annotations

import gc
from argparse import Namespace

import fairseq_cli.train  # noqa: F401  sets up the logging, before the rest of fairseq
import torch._dynamo  # noqa: F401  torch imports its compiler, which takes seconds, with the first optimizer
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from deepnmt import console

# What is forked from this process is fairseq-train, in which the package changes the process too.
console._runs = True
while console._waiting:
    console._waiting.pop(0)()
# The first one looks for Hydra's plug-ins.
convert_namespace_to_omegaconf(Namespace())
# What is here by now is nothing to look through again in each process.
gc.collect()
gc.freeze()
