"""Pre-training from data to a grafted start: batches, losses against formulas, checkpoints, and refusals."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble
from support.checkpoints import checkpoint, load, run_command
from support.models import EXAMPLE, SIZE, build, logits
from support.slow import slow_but
from support.substitution import monolingual, sentences, substitution_data
from support.trainings import fairseq_train

from deepnmt.checkpoints.grafting import graft
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.criterions.fused import FusedLabelSmoothedCrossEntropy
from deepnmt.criterions.masked_language_model import MaskedLanguageModel, MaskedLanguageModelConfig
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.pretraining import ADDED
from deepnmt.pretraining.pretraining_tasks import MaskedConfig, MaskedLanguageModelTask, MassConfig, MassTask

TABLE = "--share-all-embeddings"
MASKED = ["--task=deep_masked_lm", "--criterion=masked_language_model"]
MASS = ["--task=deep_mass", "--criterion=label_smoothed_cross_entropy_fused"]
SHORT = ["--max-tokens=200", "--max-update=2", "--lr-scheduler=inverse_sqrt"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return substitution_data(tmp_path_factory.mktemp("pretraining") / "data")


def task(data: Path | str, kind: str = "deep_mass", **options: Any) -> Any:
    config, made = (MassConfig, MassTask) if kind == "deep_mass" else (MaskedConfig, MaskedLanguageModelTask)
    values = {"seed": 1, "train_subset": "train", "required_seq_len_multiple": 1, "dataset_impl": None, **options}
    cfg = config(_name=kind, data=str(data), source_lang="de", target_lang="en", **values)
    return made.setup_task(cfg)


def lines(data: Path, language: str, subset: str = "train") -> int:
    return len((data / "text" / f"{subset}.bpe.{language}").read_text("utf-8").splitlines())


def test_text_of_both_languages_and_all_folders(data: Path, tmp_path: Path) -> None:
    more = monolingual(tmp_path, data, "en", sentences(9, seed=3), [])
    types = len((data / "dict.de.txt").read_text("utf-8").splitlines()) + 4
    made = task(f"{data}:{more}", train_subset="train,mono")
    made.load_dataset("train,mono", combine=True)
    made.load_dataset("valid")
    found = made.dataset("train,mono")
    assert len(found) == lines(data, "de") + lines(data, "en") + 9
    assert len(made.dataset("valid")) == 2 * lines(data, "de", "valid")
    tags = [made.src_dict[int(found[index]["prev_output_tokens"][0])] for index in (0, len(found) - 1)]
    assert tags == ["<de>", "<en>"]
    assert made.src_dict.symbols[types:] == ["<mask>", "<de>", "<en>"]
    assert made.src_dict == made.tgt_dict
    assert made.state_dict()[ADDED] == [3, 3]
    # Random types are those of text.
    assert (made.corruption.first, made.corruption.last) == (4, types)
    (found.set_epoch(1), made.dataset("valid").set_epoch(1))
    assert (found.epoch, made.dataset("valid").epoch) == (1, 0)
    alone = task(data, mass_langs="en", mass_share=1.0)
    alone.load_dataset("train", combine=True)
    assert len(alone.dataset("train")) == lines(data, "en")
    assert len(alone.dataset("train")[0]["target"]) == len(alone.dataset("train").src[0])
    encoder = task(data, "deep_masked_lm")
    encoder.load_dataset("train", combine=True)
    assert len(encoder.dataset("train")) == lines(data, "de")
    assert encoder.src_dict.symbols[types:] == ["<mask>"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"mass_share": 0.0}, "--mass-share must be above 0 and at most 1, but is 0.0"),
        ({"mass_share": 1.5}, "--mass-share must be above 0 and at most 1, but is 1.5"),
        ({"mass_langs": "en,en"}, "--mass-langs must be different languages, such as en,de, but is en,en"),
        ({"mass_langs": "en,fr"}, "--mass-langs must be among de or en, the languages of DATA, but is en,fr"),
        (
            {"truncate_source": True, "mass_langs": ""},
            "--truncate-source cannot be combined with --task deep_mass\n--mass-langs must be different",
        ),
    ],
)
def test_options_that_are_refused(data: Path, options: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(line)}"):
        task(data, **options)


def test_two_dictionaries_are_refused(data: Path, tmp_path: Path) -> None:
    for language in ("de", "en"):
        (tmp_path / f"dict.{language}.txt").write_bytes((data / "dict.de.txt").read_bytes())
    with (tmp_path / "dict.en.txt").open("a") as file:
        file.write("more 1\n")
    with pytest.raises(UserError, match=r"^--task deep_mass needs one dictionary for both languages"):
        task(tmp_path)
    assert len(task(tmp_path, "deep_masked_lm").src_dict) == len(task(tmp_path, "deep_masked_lm").tgt_dict)
    with pytest.raises(UserError, match=r"no text of de found in the subset train"):
        task(tmp_path, "deep_masked_lm").load_dataset("train")
    with pytest.raises(UserError, match=r"/nowhere: data must be a folder made by fairseq-preprocess"):
        task(f"{data}:{tmp_path}/nowhere").load_dataset("train")
    (tmp_path / "dict.de.txt").write_text("other 1\n")
    with pytest.raises(UserError, match=rf"dict\.de\.txt: must have the types of {data}/dict\.de\.txt, but has others"):
        task(f"{data}:{tmp_path}").load_dataset("train")


@pytest.mark.parametrize("more", [{}, {"decoder_learned_pos": True}, {"decoder_max_relative_length": 2}])
def test_places_of_the_decoder(more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first place on, they change nothing; further on, positions are those of a longer prefix."""
    model, tokens = build(more), EXAMPLE["prev_output_tokens"]
    places = torch.arange(tokens.size(1)).expand_as(tokens)
    real, placed = tokens.ne(1), logits(model, {**EXAMPLE, "places": places})
    torch.testing.assert_close(placed[real], logits(model, EXAMPLE)[real], rtol=0, atol=0)
    table = model.decoder.embed_positions(torch.full((1, 12), 5))[0]
    embedded, rest = model.decoder._embed(tokens, None, places + 3)
    expected = model.decoder.embed_scale * model.decoder.embed_tokens(tokens) + table[3 : 3 + tokens.size(1)]
    torch.testing.assert_close(embedded, expected.transpose(0, 1), rtol=0, atol=0)
    found = logits(model, {**EXAMPLE, "places": places + 3})
    monkeypatch.setattr(model.decoder, "_embed", lambda *_, **__: (expected.transpose(0, 1), rest))
    torch.testing.assert_close(found[real], logits(model, EXAMPLE)[real], rtol=0, atol=0)


def test_the_whole_sentence_as_fragment_is_a_language_model(data: Path) -> None:
    """k = m: the criterion's loss is - sum_t log P(x_t | x_1 .. x_{t-1}), by one pass for each prefix."""
    made = task(data, mass_langs="en", mass_share=1.0)
    made.load_dataset("train", combine=True)
    torch.manual_seed(1)
    config = DLCLTransformerConfig(**{**SIZE, "dropout": 0.0})
    model = DLCLTransformerModel.build_model(config, made).double().eval()
    fragments = made.dataset("train")
    sample = fragments.collater([fragments[number] for number in range(5)])
    loss, _, _ = FusedLabelSmoothedCrossEntropy(made, False, 0.0)(model, sample)
    total, tag = 0.0, made.src_dict.index("<en>")
    for number in range(5):
        item = fragments[number]
        inputs = {"src_tokens": item["source"][None], "src_lengths": torch.tensor([len(item["source"])])}
        sentence = fragments.src[number].tolist()
        for place, token in enumerate(sentence):
            prefix = torch.tensor([[tag, *sentence[:place]]])
            total -= float(logits(model, {**inputs, "prev_output_tokens": prefix})[0, -1].log_softmax(-1)[token])
    assert float(loss) == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("groups", ["1", "transparent"])
def test_loss_of_masked_tokens(groups: str, data: Path) -> None:
    model = build({"encoder_groups": groups, "share_all_embeddings": True}).train()
    criterion = MaskedLanguageModel(task(data, "deep_masked_lm"), MaskedLanguageModelConfig())
    target = torch.full_like(EXAMPLE["src_tokens"], 1)
    target[0, 2], target[1, 4] = 9, 13
    sample = {
        "net_input": {name: EXAMPLE[name] for name in ("src_tokens", "src_lengths")}, "target": target, "ntokens": 2,
    }  # fmt: skip
    loss, size, log = criterion(model, sample)
    states = model.encoder(EXAMPLE["src_tokens"])["encoder_out"][0][..., -16:].transpose(0, 1)
    scores = states @ model.encoder.embed_tokens.weight.t()
    expected = -(scores[0, 2].log_softmax(-1)[9] + scores[1, 4].log_softmax(-1)[13])
    torch.testing.assert_close(loss, expected)
    assert (size, log["ntokens"], log["nsentences"]) == (2, 2, 2)
    loss.backward()
    # Distributed training waits for all gradients.
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert not any(p.grad.any() for p in model.decoder.layers.parameters())
    assert model.encoder.layers[0].fc1.weight.grad.any()


def trained(monkeypatch: pytest.MonkeyPatch, data: Path | str, save: Path, *options: str) -> Path:
    fairseq_train(monkeypatch, [str(data)], save, TABLE, *SHORT, *options)
    return save / "checkpoint_last.pt"


def test_masked_encoder_is_grafted(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = trained(monkeypatch, data, tmp_path / "masked", *MASKED)
    start = tmp_path / "start.pt"
    run_command("graft", before, "encoder", start)
    said = capsys.readouterr().out
    assert "copied encoder.embed_tokens (1 parameters)\n" in said
    assert "new    decoder.layers.2 (" in said
    assert "copied decoder.output_projection (1 parameters)\n" in said  # the same table
    old, new = load(before)["model"], load(start)["model"]
    rows = len((data / "dict.de.txt").read_text("utf-8").splitlines()) + 4
    for name, tensor in new.items():
        if name.startswith("encoder.") and "version" not in name and "_float" not in name:
            kept = old[name][:rows] if "embed_tokens" in name else old[name]
            assert torch.equal(tensor, kept), name
    assert len(old["encoder.embed_tokens.weight"]) == rows + 1
    assert not torch.equal(new["decoder.layers.0.fc1.weight"], old["decoder.layers.0.fc1.weight"])
    ((whole,), _), ((grafted,), _) = (load_model_ensemble([str(path)]) for path in (before, start))
    source = torch.tensor([[5, 9, 7, 2], [1, 6, 8, 2]])
    ours, theirs = (model.eval().encoder(source)["encoder_out"][0] for model in (grafted, whole))
    assert torch.equal(ours, theirs)
    # A translation model begins with it, and `deepnmt finetune` would.
    last = trained(monkeypatch, data, tmp_path / "translation", "--task=deep_translation",
                   f"--finetune-from-model={start}", "--criterion=label_smoothed_cross_entropy_fused")  # fmt: skip
    assert CheckpointState.of(last).updates() == 2
    with pytest.raises(SystemExit, match="2"):
        run_command("graft", before, "decoder", tmp_path / "other.pt")
    assert "has no trained decoder, since deep_masked_lm trains the encoder alone" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        run_command("graft", before, "head", tmp_path / "other.pt", "--seed", "-1")
    assert capsys.readouterr().err.splitlines() == [
        "deepnmt graft: error: PART must be one of encoder, decoder, embeddings, but is head",
        "deepnmt graft: error: --seed must be from 0 to 4294967295, but is -1",
    ]
    assert not (tmp_path / "other.pt").exists()


@pytest.mark.parametrize("one_table", [True, False])
def test_embeddings_of_a_masked_encoder_are_grafted(one_table: bool, data: Path) -> None:
    """Two tables: the decoder's has not been trained."""
    state = checkpoint(share_all_embeddings=one_table)
    state["cfg"]["task"] = {"_name": "deep_masked_lm"}
    made, lines = graft(CheckpointState(state, "a.pt"), ["embeddings"], seed=5)
    assert "copied encoder.embed_tokens (1 parameters)" in lines
    assert f"{'copied' if one_table else 'new   '} decoder.embed_tokens (1 parameters)" in lines
    for stack, copied in (("encoder", True), ("decoder", one_table)):
        name = f"{stack}.embed_tokens.weight"
        assert torch.equal(made.tensors()[name], state["model"][name]) == copied
    state["cfg"]["task"] = {"_name": "deep_mass"}
    made, lines = graft(CheckpointState(state, "a.pt"), ["embeddings"], seed=5)
    assert "copied decoder.embed_tokens (1 parameters)" in lines
    assert torch.equal(made.tensors()[name], state["model"][name])


def test_damaged_numbers_of_added_types_are_refused() -> None:
    state = checkpoint()
    for value, must in (
        ([3, "x"], r"two whole numbers, but is \[3, 'x'\]"),
        ([0, 24], "below the 24 types of decoder."),
    ):
        state["task_state"] = {ADDED: value}
        with pytest.raises(UserError, match=rf"^a\.pt: task_state\.{ADDED} must be {must}"):
            graft(CheckpointState(state, "a.pt"), ["encoder"], seed=5)


# Of the model, and of the pre-training.
AXES = {
    "plain": (["--encoder-groups=none", "--decoder-groups=none"], ["--mass-share=0.3"]),
    "transparent, R-Drop": (["--encoder-groups=transparent"], ["--criterion=label_smoothed_cross_entropy_r_drop"]),
    "learned, SimCut": (["--decoder-learned-pos"], ["--criterion=label_smoothed_cross_entropy_simcut"]),
    "cross entropy": (["--encoder-norm=pre"], ["--criterion=cross_entropy", "--mass-langs=en", "--mass-share=1"]),
}


@pytest.mark.parametrize("axis", slow_but(["transparent, R-Drop"], AXES))
def test_mass_with_other_axes_is_grafted_whole(
    axis: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_model, of_training = AXES[axis]
    before = trained(monkeypatch, data, tmp_path / "mass", *MASS, *of_model, *of_training)
    assert math.isfinite(CheckpointState.of(before).best())
    run_command("graft", before, "encoder", "decoder", tmp_path / "start.pt")
    old, new = load(before)["model"], load(tmp_path / "start.pt")["model"]
    assert all(torch.equal(old[name][: len(tensor)], tensor) for name, tensor in new.items() if tensor.dim() > 1)
    trained(monkeypatch, data, tmp_path / "out", *of_model, "--criterion=cross_entropy", "--task=deep_translation",
            f"--finetune-from-model={tmp_path / 'start.pt'}")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("task_options", [MASKED, MASS])
def test_a_resumed_training_has_the_same_masks(
    task_options: list[str], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amid an epoch, and beyond its end: the weights are bit-equal."""
    whole = trained(monkeypatch, data, tmp_path / "whole", *task_options, "--max-update=9")
    for updates in (2, 7, 9):
        parts = trained(monkeypatch, data, tmp_path / "parts", *task_options, f"--max-update={updates}")
    assert CheckpointState.of(whole).epochs_begun() > 1
    expected, found = load(whole)["model"], load(parts)["model"]
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--task=deep_masked_lm", "--criterion=cross_entropy"], "--criterion must be masked_language_model with"),
        (
            [*MASKED, "--sentence-avg"],
            "--sentence-avg cannot be combined with task deep_masked_lm, whose loss is a mean",
        ),
        (["--task=translation", "--criterion=masked_language_model"], "--task must be deep_masked_lm with"),
        (["--task=deep_mass", "--criterion=label_smoothed_cross_entropy_mrt"], "--criterion must be one of cross_"),
        (
            [*MASS, "--arch=dlcl_transformer_lightconv"],
            "--arch must be dlcl_transformer or one of its named sizes with task",
        ),
        ([*MASS, "--arch=transformer"], "--arch must be dlcl_transformer or one of its named sizes with task"),
    ],
)
def test_combinations_that_are_refused(
    options: list[str], line: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=re.escape(line)):
        trained(monkeypatch, data, tmp_path / "save", *options)
