"""best.sh, with stand-ins for what trains and translates."""

from __future__ import annotations

from pathlib import Path

from support import stand_ins
from support.models import ROOT

# What a script of the flow leaves, in place of its work.
STANDS_IN = {
    "preprocess.sh": """while [[ $1 != --dest ]]; do shift; done
mkdir -p "$2"; echo '{"types": {"en": 9712}}' >"$2/preprocess.json\"""",
    "binarise.sh": "true",
    "train.sh": 'mkdir -p "$3"; touch "$3"/{checkpoint1,checkpoint_last,checkpoint_best}.pt "$3/train.log"',
    "average.sh": 'touch "$2"',
    "sweep.sh": """mkdir -p "$3"; touch "$3/sweep.json"; [[ -f $3/last5.pt ]] || touch "$3/last5.pt"
echo '{"checkpoint": "last5.pt", "beam": 5, "lenpen": 0.8, "tokenised BLEU": 40}' >"$3/best.json\"""",
    # The ensemble is best with a length penalty of 1.2, if that is tried.
    "generate.sh": 'mkdir -p "$3"; echo 39 >"$3/bleu"; [[ $* != *"--lenpen 1.2"* ]] || echo 43 >"$3/bleu"',
    "score.sh": 'echo "{\\"tokenised BLEU\\": {\\"score\\": $(<"$1/bleu")}}" >"$1/scores.json"',
    "synthesise.sh": "true",
    "mix.sh": "true",
}


def copy(root: Path) -> Path:
    """Copy the example beside scripts that do nothing, and return where it is."""
    stand_ins.copy_of_example(root, STANDS_IN)
    # The table and the pictures have tests of their own.
    example = root / "examples" / "multi30k"
    curves, choices = example / "curves.py", example / "choices.py"
    curves.write_text(curves.read_text("utf-8").replace("    console.run(main)", "    pass"), encoding="utf-8")
    text = choices.read_text("utf-8")
    text = text.replace("        table(given.folder, given.output)", "        print('table')")
    # The averages are empty files.
    text = text.replace("turn(given.checkpoint, given.source, given.output)", "given.output.touch()")
    choices.write_text(text, encoding="utf-8")
    # Python, with a stand-in for one subcommand of the package.
    works = {name: f'exec "{ROOT}/.venv/bin/{name}" "$@"' for name in ("python3", "fairseq-train")}
    rerank = f'{stand_ins.NOTE}out=${{!#}}; mkdir -p "$out"; echo 45 >"$out/bleu"\n'
    works["python3"] = f'if [[ $* == "-m deepnmt rerank "* ]]; then\n{rerank}exit; fi\n{works["python3"]}'
    works = {name: f"#!/usr/bin/env bash\n{work}\n" for name, work in works.items()}
    (root / "bin").mkdir()
    for name, work in works.items():
        (root / "bin" / name).write_text(work, encoding="utf-8")
        (root / "bin" / name).chmod(0o755)
    (root / "out" / "text").mkdir(parents=True)
    for split in ("train", "val", "test_2016_flickr"):
        for end in ("en", "de", "lc.norm.tok.en", "lc.norm.tok.de"):
            (root / "out" / "text" / f"{split}.{end}").write_text("a b\n")
    return root


def run(root: Path, script: str, *arguments: str) -> list[str]:
    """Return the calls of the scripts, without the folders of everything."""
    calls, _ = stand_ins.run(root, script, *arguments, DEEPNMT_PYTHON_BIN=str(root / "bin"))
    return [call.replace("out/best", "BEST") for call in calls]
