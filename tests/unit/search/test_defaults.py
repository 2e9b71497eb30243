"""The defaults of a search stand in one place."""

from __future__ import annotations

import re
from pathlib import Path

from deepnmt.cli import generate, sweep
from deepnmt.engines.engine import SearchSettings
from deepnmt.limits import DEFAULT_BATCH_SIZE, DEFAULT_BEAM, DEFAULT_LENPEN
from deepnmt.synthetic.decoding import Method
from deepnmt.synthetic.synthesis import Options

PACKAGE = Path(__file__).resolve().parents[3] / "deepnmt"


def test_all_searches_have_the_same_defaults() -> None:
    assert (DEFAULT_BEAM, DEFAULT_BATCH_SIZE, DEFAULT_LENPEN) == (5, 128, 1.0)
    assert SearchSettings().beam == Options("back").beam == Method().beam == DEFAULT_BEAM
    assert SearchSettings().lenpen == DEFAULT_LENPEN
    assert Options("back").batch_size == DEFAULT_BATCH_SIZE
    assert sweep.parser().get_default("beam") == "5"
    assert "--beam 5 --batch-size 128" in generate.EPILOG


def test_no_other_file_has_a_default_beam() -> None:
    pattern = re.compile(r"""beam: int = \d|["']--?beam["'].*default=\d|["']beam["'], \d""")
    found = [path.name for path in PACKAGE.rglob("*.py") if pattern.search(path.read_text("utf-8"))]
    # Evaluation in a training, without a beam in its options; prefixes of a network, which are no search of a model.
    assert sorted(found) == ["combine.py", "option_table.py"]
