"""Rows of text.sh and synthetic.sh, with stand-ins for the scripts that clean, train and translate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.flow import write
from support.stand_ins import TRAINED, copy_of_example, run

from deepnmt.text.lines import read_text

# A data folder, as far as the example reads it; `to` is the word after --dest, or the last one.
DATA = """case=true to=${!#}
while [[ $# -gt 0 ]]; do
    case $1 in
        --dest) to=$2 ;;
        --truecase) case=false ;;
    esac
    shift
done
mkdir -p "$to"
echo "{\\"types\\": {\\"en\\": 9712}, \\"lowercase\\": $case}" >"$to/preprocess.json\""""
STANDS_IN = {
    "preprocess.sh": DATA,
    "binarise.sh": DATA,
    "synthesise.sh": f'for word; do [[ $word != */pairs/* ]] || to=$word; done; set -- --dest "$to"\n{DATA}',
    "mix.sh": f'set -- --dest "$1"\n{DATA}',
    "clean.sh": "true",
    "align.sh": "true",
    **TRAINED,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = copy_of_example(tmp_path / "root", STANDS_IN)
    (root / "configs" / "clean.txt").touch()
    german = ["Ein Hund läuft sehr schnell.", "Das rote Auto fährt über die lange Straße."] * 5
    english = ["A dog runs very fast.", "The red car drives over the long street."] * 5
    (root / "out").mkdir()
    for split in ("train", "val", "test_2016_flickr"):
        write(root / "out" / "text", split, german, english)
        tokenised = [[line.lower().replace(".", " .") for line in side] for side in (german, english)]
        write(root / "out" / "text", f"{split}.lc.norm.tok", *tokenised)
    return root


@pytest.mark.slow
def test_rows_of_text(root: Path) -> None:
    rows = ["cleaned", "few-dropout", "truecase"]
    calls, printed = run(root, "text.sh", *rows, "--lr", "0.1")
    here = "out/text-rows"
    cleaning = [call for call in calls if call.startswith(("clean.sh", "align.sh"))]
    assert cleaning == [
        f"clean.sh --input {here}/text/dirty --output {here}/text/filtered --source-lang en --target-lang de "
        "--recipe configs/clean.txt",
        f"align.sh {here}/text/filtered {here}/text/aligned --source-lang en --target-lang de --raw --lexicon",
        f"clean.sh --input {here}/text/filtered --output {here}/text/cleaned --source-lang en --target-lang de "
        f"--length 1:100 --lexicon {here}/text/aligned --train-classifier --keep-best 0.9",
    ]
    kinds = read_text(root / here / "text" / "dirty.kinds")
    assert (len(kinds), kinds.count("good")) == (10, 8)
    assert read_text(root / here / "text" / "misspelt.de") == read_text(root / "out/text/test_2016_flickr.de")
    assert len(read_text(root / here / "text" / "topic.en")) == 5
    tests = "--test out/text/test_2016_flickr.lc.norm.tok --raw-test out/text/test_2016_flickr"
    tests += f" --test {here}/text/misspelt.lc.norm.tok --raw-test {here}/text/misspelt"
    prepared = [call for call in calls if call.startswith("preprocess.sh")]
    assert prepared[0] == (
        f"preprocess.sh --source-lang en --target-lang de --dest {here}/data/cleaned --lowercase --pretokenized "
        f"--max-len 0 --train {here}/text/cleaned --valid out/text/val.lc.norm.tok --raw-valid out/text/val {tests} "
        "--bpe-merges 10000"
    )
    assert [call.split(" --dest ")[1].split()[0] for call in prepared] == [
        f"{here}/data/{data}" for data in ("cleaned", "original", "truecase")
    ]
    assert prepared[-1].endswith(
        f"--test out/text/test_2016_flickr --test {here}/text/misspelt --bpe-merges 10000 --truecase"
    )
    assert f"binarise.sh --like {here}/data/original --train {here}/text/few --dest {here}/data/few" in calls
    options = "--max-tokens 2048 --update-freq 1 --max-update 2500 --lr 0.1"
    more = {"few-dropout": " --task deep_translation --bpe-dropout 0.1"}
    assert [call for call in calls if call.startswith("train.sh")] == [
        f"train.sh configs/multi30k/transformer_tiny.yaml {here}/data/{row.removesuffix('-dropout')} "
        f"{here}/checkpoints/seed-1/{row} {options}{more.get(row, '')} --seed 1"
        for row in rows
    ]
    for row in rows:
        save, results = f"{here}/checkpoints/seed-1/{row}", f"{here}/results/seed-1/{row}"
        data = f"{here}/data/{row.removesuffix('-dropout')}"
        assert [call for call in calls if call.startswith("generate.sh") and f"{results}/" in call] == [
            *(
                f"generate.sh {save}/{name}.pt {data} {results}/valid.{name} --subset valid"
                for name in ("average3", "average10", "checkpoint_best")
            ),
            f"generate.sh {save}/average10.pt {data} {results}/test --subset test",
            f"generate.sh {save}/average10.pt {data} {results}/misspelt --subset test1",
        ]
        assert (root / results / "chosen").read_text() == f"{root}/{save}/average10.pt\n"
    table = [line.split() for line in printed.partition("\n---")[2].splitlines()[1:]]
    assert [line[0] for line in table] == rows
    for line in table:
        assert line[1:5] == ["1", "21.00", "21.00", "21.00"]
        assert line[7:] == ["19.00", "100.00" if line[0] == "truecase" else "-"]

    # Once more: what makes and trains sees for itself that all is there; nothing is translated.
    again, printed_again = run(root, "text.sh", *rows, "--lr", "0.1")
    assert again == [call for call in calls if not call.startswith(("generate.sh", "average.sh", "score.sh"))]
    assert printed_again.partition("\n---")[2] == printed.partition("\n---")[2]


def test_rows_of_synthetic(root: Path) -> None:
    calls, printed = run(root, "synthetic.sh", "back", "full", "--lr", "0.1")
    here = "out/synthetic"
    recipe, options = "configs/multi30k/transformer_tiny.yaml", "--max-tokens 2048 --update-freq 1 --max-update 2500"
    assert [call for call in calls if call.startswith(("train.sh", "synthesise.sh", "mix.sh"))] == [
        f"train.sh {recipe} {here}/bitext {here}/checkpoints/back {options} --lr 0.1 --seed 1 "
        "--source-lang de --target-lang en",
        f"synthesise.sh back {here}/checkpoints/back/average10.pt {here}/bitext {here}/mono-de {here}/pairs/back",
        f"mix.sh {here}/mixed/back {here}/bitext {here}/pairs/back",
        f"train.sh {recipe} {here}/mixed/back {here}/checkpoints/seed-1/back {options} --lr 0.1 --seed 1",
        f"train.sh {recipe} out/data {here}/checkpoints/seed-1/full {options} --lr 0.1 --seed 1",
    ]
    reverse = [call for call in calls if call.startswith("generate.sh") and call.endswith("--reverse")]
    assert [call.split()[3] for call in reverse] == [
        f"{here}/results/back/valid.{name}" for name in ("average3", "average10", "checkpoint_best")
    ]
    assert [line.split()[:4] for line in printed.splitlines() if line.startswith("seed-1/")] == [
        [f"seed-1/{row}", "21.00", "21.00", "19.00"] for row in ("back", "full")
    ]
    assert json.loads((root / here / "mixed" / "back" / "preprocess.json").read_text())["lowercase"]
