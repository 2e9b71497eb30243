"""sacremoses is imported without what no line needs, and gives the same tokens and text."""

from __future__ import annotations

import subprocess
import sys

# Two processes, since a library is imported once.
LINES = """
lines = ["Der Hund, „das“ ist z. B. 3,5 €.", "L'été, c'est fini: 10 % d'aujourd'hui!", "It's John's \\"dog\\" & co...",
         "Это дом. 这是 EU:n ssa", "¿Qué? <b>3.000</b> -- [x] 'quoted' Jones' house"]
for language in ("de", "en", "fr", "cs", "fi", "ru"):
    for line in lines:
        tokens = tokeniser(language)(line)
        print(tokens, detokeniser(language)(tokens), normaliser(language)(line), sep="\\n")
"""
OURS = (
    """
import re, sys
compile = re.compile
from deepnmt.text.moses import detokeniser, punctuation_normaliser as normaliser, tokeniser
tokeniser("de")
assert re.compile is compile
assert not {"joblib", "tqdm", "numpy"} & set(sys.modules), sys.modules.keys()
"""
    + LINES
    + """
from sacremoses.util import Parallel, delayed, tqdm
assert Parallel(n_jobs=1)(delayed(len)(each) for each in tqdm(["a", "bc"], disable=True)) == [1, 2]
assert "joblib" in sys.modules
"""
)
THEIRS = """
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
tokeniser = lambda lang: lambda line: MosesTokenizer(lang=lang).tokenize(line, return_str=True)
detokeniser = lambda lang: lambda tokens: MosesDetokenizer(lang=lang).detokenize(tokens.split())
normaliser = lambda lang: lambda line: MosesPunctNormalizer(lang=lang).normalize(line.replace("…", "..."))
""" + LINES  # fmt: skip


def test_the_library_is_the_same() -> None:
    found, expected = (
        subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=False)
        for script in (OURS, THEIRS)
    )
    assert (found.returncode, expected.returncode) == (0, 0), found.stderr + expected.stderr
    assert found.stdout == expected.stdout
    assert len(found.stdout.splitlines()) == 6 * 5 * 3


def test_a_library_that_was_imported_before_is_left() -> None:
    script = "import joblib, tqdm, sys; from deepnmt.text.moses import tokeniser; tokeniser('de')\n"
    script += "import sacremoses.util as util; assert util.Parallel is joblib.Parallel and util.tqdm is tqdm.tqdm"
    subprocess.run([sys.executable, "-c", script], check=True)
