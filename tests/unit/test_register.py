"""`import deepnmt` costs nothing, single modules register nothing, and `register()` registers everything, once.

Of the process it changes nothing before a command runs.
"""

import os
import subprocess
import sys

# Modules that import neither fairseq nor torch: scripts and the text steps use them. A module that becomes light joins.
LIGHT = (
    "deepnmt",
    "deepnmt.checkpoints.plans",
    "deepnmt.checkpoints.untrusted",
    "deepnmt.checkpoints.untrusted",
    "deepnmt.console",
    "deepnmt.errors",
    "deepnmt.kernels.malloc",
    "deepnmt.literals",
    "deepnmt.lr_schedulers.inverse_sqrt",
    "deepnmt.model.groups",
    "deepnmt.model.norm_position",
    "deepnmt.model.stack",
    "deepnmt.model.sublayers",
    "deepnmt.recipe",
    "deepnmt.text.data_folder",
    "deepnmt.text.pipeline",
    "deepnmt.translator",
    "deepnmt.export",
    "deepnmt.cli.translate",
    "deepnmt.cli.export",
    "deepnmt.cli.rerank",
    "deepnmt.cli.combine",
)
# Modules that import torch without fairseq.
WITHOUT_FAIRSEQ = (
    "deepnmt.checkpoints.file",
    "deepnmt.engines.torch.engine",
    "deepnmt.kernels.blocked_sums",
    "deepnmt.kernels.feed_forward",
    "deepnmt.kernels.linear_cross_entropy",
    "deepnmt.kernels.output_norm",
    "deepnmt.model.dlcl",
    "deepnmt.model.residual",
    "deepnmt.model.skipping",
)

SCRIPT = """
import ctypes, gc, importlib, locale, logging, os, random, signal, sys, threading, warnings
for name in LIGHT:
    importlib.import_module(name)
    for heavy in ("fairseq", "torch"):
        assert heavy not in sys.modules, f"{name} imports {heavy}"
for name in WITHOUT_FAIRSEQ:
    importlib.import_module(name)
    assert "fairseq" not in sys.modules, f"{name} imports fairseq"

from deepnmt import Translator
assert "fairseq" not in sys.modules, "Translator imports fairseq"

# A program of somebody else's: importing torch and fairseq is its own doing.
import fairseq.data, fairseq.trainer
import numpy, torch
from torch import backends
# Importing a program of fairseq's would add a handler where there is none.
logging.root.handlers.clear()
logging.root.setLevel(logging.ERROR)

calls = []

class C:
    def __init__(self, name):
        calls.append(name)

ctypes.CDLL = C  # by which the C library would be told to keep freed memory

def process():
    return {
        "excepthook": sys.excepthook,
        "signals": [signal.getsignal(number) for number in signal.valid_signals()],
        "environment": dict(os.environ),
        "warnings": list(warnings.filters),
        "root": (logging.root.level, list(logging.root.handlers)),
        "levels": {name: logging.getLogger(name).level for name in ("deepnmt", "fairseq", "torch", "hydra")},
        "path": list(sys.path),
        "hooks": [threading.excepthook, sys.unraisablehook, sys.displayhook, warnings.showwarning, list(sys.meta_path)],
        "streams": [sys.stdin, sys.stdout, sys.stderr, sys.stdout.encoding],
        "interpreter": [sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled(), gc.get_threshold()],
        "system": [os.getcwd(), os.nice(0), os.sched_getaffinity(0), locale.setlocale(locale.LC_ALL)],
        "threads": len(os.listdir("/proc/self/task")),
        "C library": list(calls),
        "random": [random.getstate(), str(numpy.random.get_state()), torch.get_rng_state().tolist()],
        "numpy": [numpy.geterr(), str(numpy.get_printoptions())],
        "torch": [
            torch.get_num_threads(), torch.get_num_interop_threads(), torch.get_default_dtype(),
            torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision(),
            torch.is_grad_enabled(), torch.is_anomaly_enabled(), torch.multiprocessing.get_sharing_strategy(),
            torch.multiprocessing.get_start_method(allow_none=True), backends.mkldnn.enabled,
            backends.cudnn.benchmark, backends.cudnn.deterministic, backends.cuda.matmul.allow_tf32,
            (torch.tensor(1e-40) / 2).item(), torch.is_autocast_enabled("cpu"),
        ],
    }

def changed():
    now = process()
    return [name for name in before if before[name] != now[name]]

before = process()
import deepnmt.criterions.r_drop, deepnmt.lr_schedulers.inverse_sqrt_reset, deepnmt.model.transformer
from fairseq import checkpoint_utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY
from fairseq.trainer import Trainer

def ours(registry):
    return [name for name, kind in registry.items() if kind.__module__.startswith("deepnmt.")]

def state():
    registered = [ours(each) for each in (ARCH_MODEL_REGISTRY, CRITERION_REGISTRY, LR_SCHEDULER_REGISTRY)]
    return [len(names) for names in registered], Trainer.train_step, checkpoint_utils.load_checkpoint

stock = state()
assert stock[0] == [0, 0, 0], f"imports alone register {stock[0]}"
assert stock[1].__module__ == "fairseq.trainer", "imports alone patch"
deepnmt.register()
first = state()
assert first[0] == [32, 9, 2], f"register() registers {first[0]}"
assert first[1] is not stock[1] and first[2] is not stock[2], "register() does not patch"
deepnmt.register()
assert state() == first, "a second call changes something"
assert changed() == [], f"register() changes the process: {changed()}"

from deepnmt import console
assert not console.is_command()
console.run(lambda: None if console.is_command() else sys.exit("no command"))
assert changed() == ["excepthook", "signals", "environment", "warnings"], changed()
assert "show_user_errors" in sys.excepthook.__qualname__
assert "refusal" in [getattr(each.cell_contents, "__name__", "") for each in sys.excepthook.__closure__]
assert os.environ["HYDRA_FULL_ERROR"] == "1" and logging.root.level == logging.ERROR
"""


def test_light_imports_and_one_registration() -> None:
    code = f"LIGHT = {LIGHT}; WITHOUT_FAIRSEQ = {WITHOUT_FAIRSEQ}\n{SCRIPT}"
    # Other tests of this process may have been commands.
    set_by_commands = ("HYDRA_FULL_ERROR", "PYTHONUTF8", "PYTHONIOENCODING")
    environment = {name: value for name, value in os.environ.items() if name not in set_by_commands}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
