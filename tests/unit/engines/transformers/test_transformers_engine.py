"""Folders for transformers: numbers and translations of the checkpoint, from raw text too, and one line otherwise."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.checkpoints import load as load_file
from support.slow import slow_but
from support.translation_models import GERMAN, write_checkpoint

from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.model_folder import ModelFolder
from deepnmt.engines.registry import load_engine
from deepnmt.engines.torch.fairseq_engine import load_checkpoints
from deepnmt.engines.torch.options import SUPPORT
from deepnmt.errors import UserError
from deepnmt.export.exporter import Export, export
from deepnmt.translator import Translator

transformers = pytest.importorskip("transformers")
from deepnmt.engines.transformers import DeepTranslationModel  # noqa: E402
from deepnmt.engines.transformers.engine import LastEnds, TransformersEngine, load  # noqa: E402

PRE: dict[str, Any] = {"encoder_norm": "pre", "decoder_norm": "pre"}
PLAIN: dict[str, Any] = {"encoder_groups": "none", "decoder_groups": "none"}
# The class of each kind of model, and its options.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "post": ("fsmt", {**PLAIN, "decoder_attention_heads": 1, "decoder_ffn_embed_dim": 24}),
    "post, one table": ("fsmt", {**PLAIN, "share_all_embeddings": True, "activation_fn": "gelu"}),
    "post, three tables": ("fsmt", {**PLAIN, "share_decoder_input_output_embed": False, "no_scale_embedding": True}),
    "pre, one table": ("m2m_100", {**PLAIN, **PRE, "share_all_embeddings": True}),
    "pre": ("deepnmt", {**PLAIN, **PRE, "activation_fn": "gelu"}),
    "pre, no last norm": ("deepnmt", {**PLAIN, **PRE, "share_all_embeddings": True, "no_decoder_final_norm": True}),
    "dlcl": ("deepnmt", {"merged_attention": True, "encoder_max_relative_length": 2}),
    "post dlcl": ("deepnmt", {"dlcl_window": 1, "dlcl_softmax": True, "dlcl_granularity": "vector"}),
    "groups": ("deepnmt", {**PRE, "encoder_groups": "0,1,3", "dlcl_granularity": "2", "dlcl_embedding_norm": True}),
    "transparent": ("deepnmt", {"encoder_groups": "transparent", "decoder_groups": "none"}),
    "top": ("deepnmt", {**PLAIN, **PRE, "encoder_groups": "top"}),
    "no norm": ("deepnmt", {"encoder_norm": "none", "decoder_norm": "none", "activation_fn": "tanh"}),
    "b2t": ("deepnmt", {**PLAIN, "encoder_norm": "b2t", "decoder_norm": "b2t", "residual_scale": "deepnorm"}),
    "relative": (
        "deepnmt",
        {**PRE, "encoder_max_relative_length": 2, "decoder_max_relative_length": 3, "relative_positions": "keys",
         "no_token_positional_embeddings": True},
    ),
    "relative values": ("deepnmt", {**PRE, "encoder_max_relative_length": 4, "decoder_max_relative_length": 1}),
    "merged": ("deepnmt", {**PRE, "merged_attention": True, "no_decoder_final_norm": True}),
    "shared layers": ("fsmt", {**PLAIN, "decoder_share_layers": "0,0,0", "encoder_share_layers": "0,1,1"}),
    "shared self-attention": (
        "deepnmt", {**PLAIN, "decoder_self_attention": "shared", "shared_attention_blocks": "0,2,3"}
    ),
    "shared attention": (
        "deepnmt",
        {**PRE, "decoder_self_attention": "shared", "shared_attention_blocks": "3", "shared_cross_attention": True},
    ),
    "ssru": ("deepnmt", {**PLAIN, "decoder_self_attention": "ssru"}),
    "average": ("deepnmt", {**PLAIN, **PRE, "decoder_self_attention": "average"}),
    "average, feed-forward": ("deepnmt", {"decoder_self_attention": "average", "average_attention_ffn": True}),
    "shared layers of DLCL": ("deepnmt", {"decoder_share_layers": "0,0,1", "encoder_share_layers": "0,1,0"}),
    "skipping": ("deepnmt", {**PLAIN, "encoder_skip": 0.4, "skip_scale": "inference", "skip_schedule": "constant"}),
    "admin": ("deepnmt", {**PLAIN, "residual_scale": "admin", "encoder_learned_pos": True}),
    "learned positions": ("deepnmt", {**PLAIN, "encoder_learned_pos": True, "decoder_learned_pos": True}),
    "norm of the embedding": ("deepnmt", {**PLAIN, "layernorm_embedding": True}),
    "no source": ("deepnmt", {**PRE, "no_cross_attention": True, "activation_fn": "linear"}),
    "output": ("deepnmt", {**PRE, "decoder_output_dim": 16, "share_decoder_input_output_embed": False}),
}  # fmt: skip
USUAL = ("post", "pre, one table", "dlcl", "ssru", "average, feed-forward", "shared attention")
SEARCH = SearchSettings(beam=3, lenpen=0.7, max_len_b=12)
SOURCES = [["D@@", "er", "nie", "da"], ["M"], ["Hund", "und", "D@@", "ie", "Katze", "und", "mehr", "n", "e", "r"]]
FILES = {"config.json", "generation_config.json", "tokenizer_config.json", "model.safetensors", "README.md"}
FILES |= {"model.json", "codes", "dict.de.txt", "dict.en.txt"}


@pytest.mark.parametrize("kind", slow_but(USUAL, KINDS))
def test_numbers_and_translations(kind: str, data: Path, tmp_path: Path) -> None:
    name, options = KINDS[kind]
    checkpoint, folder = write_checkpoint(tmp_path / "checkpoint.pt", data, **options), tmp_path / "model"
    result = export(Export([checkpoint], data, "transformers", check=4, search=SEARCH), folder)
    assert result is not None
    assert result.difference < 1e-5
    assert result.differing == 0
    assert {path.name for path in folder.iterdir()} == FILES
    assert json.loads((folder / "config.json").read_text())["model_type"] == name
    # transformers misses no tensor, and finds none too many.
    _, report = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report
    # With one search and another; the longest translation ends as in fairseq.
    engine, expected = load(ModelFolder.open(folder), 1), load_checkpoints([checkpoint], data, ("de", "en"), 1, "cpu")
    assert (engine.longest, engine.longest_target) == (expected.longest, expected.longest_target)
    for settings in (SearchSettings(beam=1, max_len_b=5), SearchSettings(beam=4, max_len_a=0.3, max_len_b=1)):
        found, wanted = engine.search(SOURCES, settings), expected.search(SOURCES, settings)
        assert [each[0].tokens for each in found] == [each[0].tokens for each in wanted]
        for part in ("score", "log_prob"):
            scores = [getattr(each[0], part) for each in wanted]
            assert [getattr(each[0], part) for each in found] == pytest.approx(scores, abs=1e-5)
    # The torch engine reads the same file.
    torch_engine = load_engine(dataclasses.replace(ModelFolder.open(folder), engine="torch"), 1)
    found, wanted = torch_engine.search(SOURCES, SEARCH), expected.search(SOURCES, SEARCH)
    assert [each[0].tokens for each in found] == [each[0].tokens for each in wanted]
    assert [each[0].score for each in found] == pytest.approx([each[0].score for each in wanted], abs=1e-5)


def test_each_option_has_a_kind() -> None:
    """What the torch engine takes is computed here too: a new option needs a kind above."""
    named = {name for _, options in KINDS.values() for name in options}
    sizes = {f"{stack}_{name}" for stack in ("encoder", "decoder") for name in ("embed_dim", "layers", "ffn_embed_dim")}
    sizes |= {f"{stack}_attention_heads" for stack in ("encoder", "decoder")}
    sizes |= {f"max_{side}_positions" for side in ("source", "target")}
    # Other names of options above, and a table that all models have.
    others = {"encoder_normalize_before", "decoder_normalize_before", "merge_src_tgt_embed", "decoder_input_dim"}
    others |= {"decoder_skip", "skip_scale", "skip_schedule"}
    assert SUPPORT.takes - named - sizes - others == set()


def test_raw_text_through_transformers_alone(data: Path, dlcl: tuple[Path, Path], caplog: Any) -> None:
    checkpoint, folder = dlcl
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    assert isinstance(model, DeepTranslationModel)
    lines = [*GERMAN, "Wörter, die„es“ nicht gibt: </s> <pad> <unk>!", "  viel \t Platz  "]
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    found = tokenizer.batch_decode(model.generate(**batch, max_new_tokens=13), skip_special_tokens=True)
    translator = Translator.from_checkpoint(checkpoint, data)
    assert found == translator.translate(lines, beam=3, lenpen=0.7, max_len_b=12)
    # Numbers as fairseq has them, and its padding on the right.
    dictionary = [line.split()[0] for line in (data / "dict.de.txt").read_text("utf-8").splitlines()]
    types = {name: number for number, name in enumerate(["<s>", "<pad>", "</s>", "<unk>", *dictionary])}
    for row, line in zip(batch["input_ids"].tolist(), lines, strict=True):
        expected = [types.get(token, 3) for token in translator.pipeline.encode(line).split()] + [2]
        assert row == expected + [1] * (len(row) - len(expected))
    assert "newly initialized" not in caplog.text


def test_labels_and_text_of_the_target(data: Path, dlcl: tuple[Path, Path], tmp_path: Path) -> None:
    checkpoint, folder = dlcl
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    batch = tokenizer(list(GERMAN[:2]), text_target=["The dog sleeps.", "A cat"], return_tensors="pt", padding=True)
    engine = load_checkpoints([checkpoint], data, ("de", "en"), 1, "cpu")
    types = [engine.target[number] for number in range(len(engine.target))]
    targets = [[types[number] for number in row if number not in (1, 2)] for row in batch["labels"].tolist()]
    # The text of the target is cut as the target's.
    assert " ".join(targets[0]).replace("@@ ", "").replace(" ‿", "").startswith("The dog sleeps")
    sources = [translator_tokens(data, line) for line in GERMAN[:2]]
    scores = [value for row in engine.score(sources, targets) for value in row]
    output = model(**batch)
    assert float(output.loss.detach()) == pytest.approx(-sum(scores) / len(scores), abs=1e-5)
    # It can be trained further, saved and read.
    output.loss.backward()
    assert all(each.grad is not None and bool(each.grad.isfinite().all()) for each in model.parameters())
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert torch.equal(again(**batch).logits, output.logits)
    assert (
        transformers.AutoTokenizer.from_pretrained(tmp_path)("Der Hund")["input_ids"]
        == tokenizer("Der Hund")["input_ids"]
    )
    # Numbers of no type, such as labels that do not count.
    assert tokenizer.decode([-100, 10**6, 4], skip_special_tokens=False).split()[:2] == ["<unk>", "<unk>"]
    assert tokenizer.convert_ids_to_tokens([-1, 4]) == ["<unk>", types[4]]
    # Where its files are already, they stay.
    before = (tmp_path / "model.json").read_bytes()
    transformers.AutoTokenizer.from_pretrained(tmp_path).save_pretrained(tmp_path)
    assert (tmp_path / "model.json").read_bytes() == before
    # A model without weights is one, too: new numbers.
    fresh = transformers.AutoModelForSeq2SeqLM.from_config(model.config)
    assert bool(fresh(**batch).logits.isfinite().all())


def translator_tokens(data: Path, line: str) -> list[str]:
    from deepnmt.text.pipeline import TextPipeline

    return TextPipeline.read(data).encode(line).split()


@pytest.mark.parametrize("kind", ["dlcl", "ssru", "average", "shared attention"])
def test_padding_of_the_target_does_not_count(kind: str, data: Path, tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "checkpoint.pt", data, **KINDS[kind][1])
    export(Export([checkpoint], data, "transformers", check=0, search=SEARCH), tmp_path / "model")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model")
    source, text = torch.tensor([[5, 6, 2]]), [2, 6, 7]
    with torch.no_grad():
        alone = model(source, decoder_input_ids=torch.tensor([text])).logits
        losses = [model(source, labels=torch.tensor([[6, 7, 2, last]])).loss.item() for last in (1, -100)]
        for place in (0, 1):
            target = torch.tensor([[*text[:place], 1, *text[place:]]])
            mask = target.ne(1).long()
            padded = model(source, decoder_input_ids=target, decoder_attention_mask=mask).logits
            # One position after the other, with a cache.
            cache, steps = None, []
            for end in range(1, 5):
                given = {"decoder_input_ids": target[:, end - 1 : end], "decoder_attention_mask": mask[:, :end]}
                found = model(source, **given, cache=cache, use_cache=True)
                cache, steps = found.cache, [*steps, found.logits]
            for logits in (padded, torch.cat(steps, 1)):
                torch.testing.assert_close(logits[mask.bool()], alone[0], rtol=1e-5, atol=1e-5)
    expected = torch.nn.functional.cross_entropy(alone[0], torch.tensor([6, 7, 2])).item()
    assert losses == pytest.approx([expected, expected], abs=1e-5)


def test_the_folder_translates_with_deepnmt(data: Path, dlcl: tuple[Path, Path]) -> None:
    translator = Translator(dlcl[1])
    assert isinstance(translator.engine.engine, TransformersEngine)  # type: ignore[attr-defined]
    expected = Translator.from_checkpoint(dlcl[0], data)
    options = {"beam": 3, "lenpen": 0.7, "max_len_b": 12}
    assert translator.translate([*GERMAN, ""]) == expected.translate([*GERMAN, ""], **options)
    # Other options by the torch engine, from the same file.
    assert translator.translate(GERMAN, length_penalty="gnmt") == expected.translate(
        GERMAN, **options, length_penalty="gnmt"
    )
    nbest = translator.nbest(["Der Hund"], 3)[0]
    assert len({each.text for each in nbest}) > 1
    assert [each.score for each in nbest] == sorted((each.score for each in nbest), reverse=True)
    # A user may edit the card, and nothing else.
    (dlcl[1] / "README.md").write_text("edited")
    Translator(dlcl[1])


def test_a_file_that_is_overwritten_changes_no_translation(dlcl: tuple[Path, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(dlcl[1], tmp_path / "model")
    engine = load(ModelFolder.open(folder), 1)
    expected = engine.search(SOURCES, SEARCH)
    with (folder / "model.safetensors").open("r+b") as file:
        file.write(bytes((folder / "model.safetensors").stat().st_size))
    assert engine.search(SOURCES, SEARCH) == expected


def test_code_in_a_folder_is_never_run(dlcl: tuple[Path, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(dlcl[1], tmp_path / "model")
    marker = tmp_path / "ran"
    (folder / "evil.py").write_text(f"open({str(marker)!r}, 'w')\n")
    for name in ("config.json", "tokenizer_config.json"):
        config = json.loads((folder / name).read_text())
        config["auto_map"] = {"AutoModelForSeq2SeqLM": "evil.Model", "AutoConfig": "evil.Config"}
        config["auto_map"] |= {"AutoTokenizer": ["evil.Tokenizer", None]}
        (folder / name).write_text(json.dumps(config))
    engine = load(ModelFolder.read(folder)[0], 1)
    assert engine.search(SOURCES[:1], SEARCH)
    assert not marker.exists()


def test_a_checkpoint_in_half_precision(data: Path, tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "checkpoint.pt", data, **KINDS["pre, one table"][1])
    state = load_file(checkpoint)
    torch.save({**state, "model": {name: each.half() for name, each in state["model"].items()}}, checkpoint)
    result = export(Export([checkpoint], data, "transformers", check=4, search=SEARCH), tmp_path / "model")
    assert result is not None
    assert result.difference < 1e-5
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model")
    assert {each.dtype for each in model.parameters()} == {torch.float32}


def test_refusals(data: Path, tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "checkpoint.pt", data)
    task = Export([checkpoint], data, "transformers", search=SEARCH)
    unknown = write_checkpoint(tmp_path / "other.pt", data, activation_fn="gelu_accurate")
    texts = shutil.copytree(data, tmp_path / "placeholders")
    record = json.loads((texts / "preprocess.json").read_text())
    (texts / "preprocess.json").write_text(json.dumps({**record, "placeholders": "numbers"}))
    for change, message in (
        ({"data": texts}, r"^data with --placeholders numbers: use --engine torch$"),
        ({"checkpoints": [unknown]}, r"^a DLCLTransformerModel with these options: use --engine torch$"),
    ):
        with pytest.raises(UserError, match=message):
            export(dataclasses.replace(task, **change), tmp_path / "model")
        assert not (tmp_path / "model").exists()


def test_damage_is_one_line(dlcl: tuple[Path, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(dlcl[1], tmp_path / "model")
    record = ModelFolder.read(folder)[0]
    types = (folder / "dict.en.txt").read_bytes()
    (folder / "dict.en.txt").write_bytes(types + b"zzz 1\n")
    with pytest.raises(UserError, match=r"dict\.en\.txt: must have the \d+ types of the model, but has \d+$"):
        load(record, 1)
    (folder / "dict.en.txt").write_bytes(types)
    config = (folder / "config.json").read_bytes()
    (folder / "config.json").write_text("{}")
    with pytest.raises(UserError, match=rf"^{folder}: must be a model that transformers can read, but is not: [^\n]*$"):
        load(record, 1)
    (folder / "config.json").write_bytes(config)
    with pytest.raises(UserError, match=r"model\.json: must have the key 'architecture\.models\.0\.max_target_pos"):
        load(dataclasses.replace(record, architecture={}), 1)
    # A pickle is no weights.
    state = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"must be a model that transformers can read, but is not: [^\n]*safetensors"):
        load(record, 1)
    (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match=r"model\.safetensors: was altered since the export"):
        Translator(folder)


@pytest.mark.slow
def test_plain_folders_and_a_missing_registration(data: Path, tmp_path: Path) -> None:
    """A plain model loads without this package; the tokeniser asks for it, and never cuts text otherwise."""
    checkpoint = write_checkpoint(tmp_path / "checkpoint.pt", data, **PLAIN)
    export(Export([checkpoint], data, "transformers", check=0), tmp_path / "model")
    script = (
        "import sys, transformers; m = transformers.AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1]);"
        "assert type(m).__module__.startswith('transformers.'); print('model');"
        "transformers.AutoTokenizer.from_pretrained(sys.argv[1]); print('tokenizer')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "model"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert done.stdout == "model\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), [("post", 4), ("pre, one table", 2), ("groups", 4)])
def test_a_thousand_lines(kind: str, seed: int, data: Path, tmp_path: Path) -> None:
    """The longest translations must end, as with fairseq; transformers alone would cut them."""
    words = sorted({word for line in GERMAN for word in line.split()})
    generator = torch.Generator().manual_seed(1)
    lines = [
        " ".join(words[number] for number in torch.randint(len(words), (1 + number % 9,), generator=generator).tolist())
        for number in range(1000)
    ]
    checkpoint = write_checkpoint(tmp_path / "checkpoint.pt", data, seed, **KINDS[kind][1])
    export(Export([checkpoint], data, "transformers", check=0, search=SearchSettings(beam=3)), tmp_path / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model")
    translator = Translator.from_checkpoint(checkpoint, data)
    expected, found = translator.nbest(lines, 1, beam=3, max_len_b=30, split=False), []
    for start in range(0, 1000, 50):
        batch = tokenizer(lines[start : start + 50], return_tensors="pt", padding=True)
        ends = transformers.LogitsProcessorList([LastEnds(30)])
        output = model.generate(**batch, max_new_tokens=31, logits_processor=ends)
        found += tokenizer.batch_decode(output, skip_special_tokens=True)
    differing = [number for number, each in enumerate(expected) if each[0].text != found[number]]
    assert len(differing) <= 2  # ties
