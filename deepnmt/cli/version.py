"""`deepnmt --version`: everything that a bug report needs, without importing fairseq or torch."""

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path

import deepnmt
from deepnmt.text.lines import whole_text

# Distributions that bring the package fairseq.
FAIRSEQ = ("fairseq-fixed", "ve-fairseq", "fairseq")


def version() -> str:
    """Return a line each for the package, fairseq, torch, Python and processor."""
    python = f"Python {platform.python_version()}, {platform.platform(terse=True)}"
    parts = distribution(*FAIRSEQ), distribution("torch"), python, processor()
    return "\n".join((f"deepnmt {deepnmt.__version__}", *parts))


def distribution(*names: str) -> str:
    """Return name and version of the first installed distribution among several."""
    for name in names:
        try:
            return f"{name} {installed(name)}"
        except PackageNotFoundError:
            continue
    return f"{names[-1]}: not installed"


def processor() -> str:
    """Return the processor's model and its vector instructions, as far as the system reports them."""
    try:
        lines = whole_text(Path("/proc/cpuinfo"), "replace").split("\n")
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    facts = {name.strip(): value.strip() for name, value in fields.items()}
    flags = set(facts.get("flags", "").split())
    vectors = [flag for flag in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16") if flag in flags]
    return " ".join([facts.get("model name", platform.machine()), *vectors])
