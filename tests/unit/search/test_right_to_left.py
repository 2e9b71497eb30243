"""A model that writes from right to left is the ordinary model of a data folder whose targets were reversed by hand."""

from __future__ import annotations

import io
import re
import shutil
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from fairseq_cli import generate, preprocess, validate
from support.checkpoints import load
from support.models import dictionary
from support.trainings import binarised_text, fairseq_train

from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.torch.fairseq_engine import load_checkpoints
from deepnmt.errors import UserError
from deepnmt.search import right_to_left

TYPES = dictionary()
EVAL = ["--eval-bleu", '--eval-bleu-args={"beam": 2, "max_len_b": 6, "min_len": 3}']


class Trained(NamedTuple):
    """Data folders, and checkpoints: from right to left, and of the reversed data."""

    data: Path
    reversed_data: Path
    backwards: Path
    plain: Path


def train(data: Path, save: Path, *more: str) -> Path:
    size = ["--max-update=8", "--batch-size=8", "--dropout=0", "--no-epoch-checkpoints", "--share-all-embeddings"]
    with pytest.MonkeyPatch.context() as monkeypatch:
        fairseq_train(monkeypatch, [str(data), "--task=deep_translation"], save, *size, *EVAL, *more)
    return save / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("right_to_left")
    data = binarised_text(folder)
    for split in ("train", "valid", "test"):
        lines = (folder / f"{split}.b").read_text().splitlines()
        (folder / f"{split}.b").write_text("".join(" ".join(line.split()[::-1]) + "\n" for line in lines))
    with pytest.MonkeyPatch.context() as monkeypatch:
        prefixes = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
        dictionaries = [f"--srcdict={data}/dict.a.txt", f"--tgtdict={data}/dict.b.txt"]
        command = ["preprocess", "--source-lang=a", "--target-lang=b", *dictionaries, *prefixes]
        monkeypatch.setattr(sys, "argv", [*command, f"--destdir={folder / 'reversed'}"])
        preprocess.cli_main()
    backwards = train(data, folder / "backwards", "--right-to-left")
    return Trained(data, folder / "reversed", backwards, train(folder / "reversed", folder / "plain"))


@pytest.fixture(scope="module")
def random(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The same with weights that are drawn, so that what is found is far from a palindrome, and equal in both."""
    folder = tmp_path_factory.mktemp("random")
    draw = torch.Generator().manual_seed(3)
    weights = {name: tensor.clone() for name, tensor in load(trained.plain)["model"].items()}
    tables = [name for name in weights if name.endswith(("embed_tokens.weight", "output_projection.weight"))]
    for name in sorted(weights.keys() - {*tables}):
        weights[name] += 0.3 * torch.randn(weights[name].shape, generator=draw)
    table = torch.randn(weights[tables[0]].shape, generator=draw)  # which source and target share
    table[TYPES.eos()] *= 0.5
    weights |= dict.fromkeys(tables, table)
    paths = []
    for path in (trained.backwards, trained.plain):
        paths.append(folder / f"{path.parent.name}.pt")
        torch.save({**load(path), "model": weights}, paths[-1])
    return Trained(trained.data, trained.reversed_data, *paths)


def run(monkeypatch: pytest.MonkeyPatch, data: Path, path: Path | str, *more: str) -> dict[str, str]:
    """What fairseq-generate prints: H-0 and so on, with the rest of the line."""
    command = ["generate", str(data), f"--path={path}", "--cpu", "--beam=3", "--max-len-b=6", "--min-len=3"]
    # A worker that is collected as garbage is waited for for five seconds.
    command.append("--num-workers=0")
    task = [] if any(word.startswith("--task") for word in more) else ["--task=deep_translation"]
    monkeypatch.setattr(sys, "argv", [*command, *task, "--batch-size=4", "--nbest=2", *more])
    with redirect_stdout(io.StringIO()) as output:
        generate.cli_main()
    lines = (re.fullmatch(r"([HPT]-\d+)\t(.*)", line) for line in output.getvalue().splitlines())
    found: dict[str, list[str]] = {}
    for line in filter(None, lines):
        found.setdefault(line[1], []).append(line[2])
    return {name: "\n".join(values) for name, values in found.items()}


def test_training_is_that_of_reversed_data(trained: Trained) -> None:
    backwards, plain = load(trained.backwards), load(trained.plain)
    assert backwards["task_state"] == {"right_to_left": True}
    assert plain["task_state"] == {}
    for name, tensor in plain["model"].items():
        assert torch.allclose(backwards["model"][name], tensor, atol=1e-5), name
    both = backwards["extra_state"]["val_loss"], plain["extra_state"]["val_loss"]
    assert both[0] == pytest.approx(both[1], abs=1e-4)


# fairseq's search, this package's, and no search at all.
WIDE = ["--beam=9", "--nbest=9"]
FOUND_BY = [[*WIDE, "--no-beamable-mm"], [*WIDE, "--max-len-ratio=1"], ["--score-reference", "--nbest=1"]]


@pytest.mark.parametrize("more", FOUND_BY)
def test_translations_are_turned_back(random: Trained, more: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a word of the direction on the command line, and in the words of the text itself."""
    found = run(monkeypatch, random.data, random.backwards, *more)
    expected = run(monkeypatch, random.reversed_data, random.plain, *more)
    assert len(found) == 18
    different = 0
    for name, text in expected.items():
        for here, there in zip(found[name].split("\n"), text.split("\n")):
            mine, theirs = here.split("\t")[-1].split(), there.split("\t")[-1].split()
            if name[0] == "P":
                turned = [*theirs[-2::-1], theirs[-1]]  # the last score is the end symbol's
                assert list(map(float, mine)) == pytest.approx(list(map(float, turned)), abs=2e-3)
            else:
                assert mine == theirs[::-1]
                different += mine != theirs
    assert different > 10


def test_validation_translates_in_the_order_of_the_text(random: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    """BLEU is nearly the same in both orders; what it compares is seen where samples are printed."""
    shown: list[str] = []
    monkeypatch.setattr("fairseq.tasks.translation.logger.info", shown.append)
    for data, path in ((random.data, random.backwards), (random.reversed_data, random.plain)):
        overrides = repr({"eval_bleu_print_samples": True, "data": str(data)})
        command = [
            "validate",
            str(data),
            f"--path={path}",
            "--cpu",
            "--batch-size=8",
            "--task=deep_translation",
            "--num-workers=0",
        ]
        monkeypatch.setattr(sys, "argv", [*command, f"--model-overrides={overrides}"])
        validate.cli_main()
    pairs = [line for line in shown if line.startswith("example ")]
    assert len(pairs) == 4
    for here, there in zip(pairs[:2], pairs[2:]):
        (kind, words), (other, reverse) = here.split(": "), there.split(": ")
        assert (kind, words.split()) == (other, reverse.split()[::-1])
        assert len(words.split()) > 1


def test_the_torch_engine_turns_translations_back(random: Trained) -> None:
    settings = SearchSettings(beam=9, nbest=9, max_len_b=6, more={"min_len_ratio": 1.5})
    sources, targets = [["a1", "a2", "a3"], ["a5"]], [["b1", "b2", "b4"], ["b3", "b6"]]
    here, there = (
        load_checkpoints([path], random.data, ("a", "b"), device="cpu") for path in (random.backwards, random.plain)
    )
    for mine, theirs in zip(here.search(sources, settings), there.search(sources, settings)):
        assert [each.tokens for each in mine] == [each.tokens[::-1] for each in theirs]
        assert any(each.tokens != each.tokens[::-1] for each in mine)
    for one, other in zip(here.score(sources, targets), there.score(sources, [words[::-1] for words in targets])):
        assert one == pytest.approx([*other[-2::-1], other[-1]], abs=1e-4)


def test_contradictions_are_refused(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    both = f"{trained.backwards}:{trained.plain}"
    some = "--path: all models must be trained with --right-to-left, or none, but only some are"
    for path, more, message in (
        (trained.plain, ["--right-to-left"], "--right-to-left cannot be used with a checkpoint .* without it"),
        (both, [], some),
        (f"{trained.plain}:{trained.backwards}", [], some),
        (trained.backwards, ["--task=translation"], "--task: must be deep_translation for a checkpoint .*--right-to"),
        (trained.backwards, ["--prefix-size=1"], "--prefix-size cannot be used with a model that .* right to left"),
        (trained.backwards, ["--right-to-left", "--print-alignment=hard"], "--print-alignment cannot be used with"),
    ):
        with pytest.raises(UserError, match=f"^{message}"):
            run(monkeypatch, trained.data, path, *more)
    with pytest.raises(UserError, match=f"^{some}$"):
        load_checkpoints([trained.backwards, trained.plain], trained.data, ("a", "b"), device="cpu")
    several = ["--prefix-size=1", "--prune-gap=-1"]
    with pytest.raises(UserError, match=r"^--prune-gap must be at least 0") as caught:
        run(monkeypatch, trained.data, trained.backwards, *several)
    named = [line.split(" ")[0].rstrip(":") for line in str(caught.value).splitlines()]
    assert named == ["--prune-gap"] + ["--prefix-size"] * 2


def test_a_training_keeps_its_direction(trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = [str(trained.data), "--task=deep_translation"]
    for checkpoint, more, kinds in (
        (trained.plain, ["--right-to-left"], "True, as in this training, but is False"),
        (trained.backwards, [], "False, as in this training, but is True"),
    ):
        save = tmp_path / f"save{len(more)}"
        save.mkdir()
        shutil.copy(checkpoint, save)
        with pytest.raises(UserError, match=rf"checkpoint_last\.pt: cfg\.task\.right_to_left must be {kinds}; give"):
            fairseq_train(monkeypatch, data, save, "--max-update=9", "--batch-size=8", "--share-all-embeddings", *more)
    with pytest.raises(UserError, match=r"^--load-alignments cannot be combined with --right-to-left$"):
        fairseq_train(monkeypatch, data, tmp_path, "--batch-size=8", "--right-to-left", "--load-alignments")


@pytest.mark.slow
def test_a_training_that_begins_with_a_model_says_its_direction(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(name: str, *more: str) -> None:
        data = [str(trained.data), "--task=deep_translation"]
        options = ["--max-update=1", "--batch-size=8", "--share-all-embeddings", "--disable-validation", *more]
        fairseq_train(monkeypatch, data, tmp_path / name, *options)

    for option in ("--finetune-from-model", "--restore-file"):
        more = ["--reset-optimizer"] if option == "--restore-file" else []
        with pytest.raises(UserError, match=r"the model is of --right-to-left, which must be given, too, but is not$"):
            begin("refused", f"{option}={trained.backwards}", *more)
    begin("same", f"--finetune-from-model={trained.backwards}", "--right-to-left")
    # Another direction than the model's, if it is asked for.
    begin("turned", f"--finetune-from-model={trained.plain}", "--right-to-left")


def test_reversing_twice_is_the_identity() -> None:
    """Words alone change places, whatever the side that the padding is on."""
    for sentence, reverse in (
        ([5, 6, 7, 2], [7, 6, 5, 2]),
        ([1, 1, 5, 6, 2], [1, 1, 6, 5, 2]),
        ([5, 3, 2, 1], [3, 5, 2, 1]),
        ([2], [2]),
    ):
        tokens = torch.tensor(sentence)
        assert right_to_left.turned_targets(tokens, TYPES).tolist() == reverse
        assert right_to_left.turned_targets(torch.tensor(reverse), TYPES).tolist() == sentence
    palindrome = torch.tensor([5, 6, 7, 6, 5, 2])
    assert right_to_left.turned_targets(palindrome, TYPES).equal(palindrome)
    batch = torch.tensor([[5, 6, 7, 2], [8, 9, 2, 1], [1, 1, 4, 2]])
    assert right_to_left.turned_targets(batch, TYPES).tolist() == [[7, 6, 5, 2], [9, 8, 2, 1], [1, 1, 4, 2]]


def test_attention_goes_with_the_words() -> None:
    attention = torch.arange(12.0).view(3, 4)
    hypothesis = {
        "tokens": torch.tensor([5, 6, 7, 2]),
        "positional_scores": torch.tensor([-1.0, -2.0, -3.0, -4.0]),
        "attention": attention,
        "score": torch.tensor(-2.5),
    }
    turned_ = right_to_left.turned_hypothesis(hypothesis, TYPES)
    assert turned_["tokens"].tolist() == [7, 6, 5, 2]
    assert turned_["positional_scores"].tolist() == [-3, -2, -1, -4]
    assert turned_["attention"].equal(attention[:, [2, 1, 0, 3]])
    assert turned_["score"] == -2.5
