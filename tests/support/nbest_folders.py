"""Text folders without binarised data, n-best lists of them, and checkpoints of small models that fit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig

from deepnmt.text.nbest import Translation, write_nbest
from support.checkpoints import checkpoint
from support.models import dictionary, scramble, task

TEXTS = {"de": ["w1 w2", "w3", "w4 w5 w6"], "en": ["w7 w8 w9 w10 .", "w11 w12 w13 w14", "w15 w7 w8 w9"]}
# Of each sentence.
Lists = Sequence[Sequence[tuple[str, Mapping[str, float]]]]


def text_folder(folder: Path, subsets: Sequence[str] = ("valid", "test"), raw: bool = True) -> Path:
    """A data folder with the dictionaries of `support.models` and the texts of its subsets, without binarised files."""
    (folder / "text").mkdir(parents=True)
    for language, lines in TEXTS.items():
        (folder / f"dict.{language}.txt").write_text("".join(f"w{number} 1\n" for number in range(20)))
        for name in [f"{subset}.{kind}" for subset in subsets for kind in ("bpe", "tok", "raw")[: 2 + raw]]:
            (folder / "text" / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines))
    record = {"source_lang": "de", "target_lang": "en", "lowercase": True, "pretokenized": True}
    (folder / "preprocess.json").write_text(json.dumps(record))
    return folder


def number_folder(folder: Path) -> Path:
    """A data folder whose numbers are tags as subwords: its valid set alone."""
    text_folder(folder, ["valid"])
    texts = {"de": ["w1 17", "w3", "w4 18 w6"], "en": ["w7 17 w9 w10 .", "w11 w12 w13 w14", "w7 18 w9 w10 ."]}
    for language, lines in texts.items():
        for kind in ("raw", "tok", "bpe"):
            text = "".join(f"{line}\n" for line in lines)
            path = folder / "text" / f"valid.{kind}.{language}"
            path.write_text(re.sub(r"\b1[78]\b", "<num>", text) if kind == "bpe" else text)
        words = folder / f"dict.{language}.txt"
        words.write_text(words.read_text().replace("w19 ", "<num> "))
    record = json.loads((folder / "preprocess.json").read_text())
    (folder / "preprocess.json").write_text(json.dumps({**record, "pretokenized": False, "placeholders": "numbers"}))
    return folder


def nbest_folder(folder: Path, lists: Lists, subset: str = "valid", reverse: bool = False) -> Path:
    """What generate.sh leaves: the list, the record, and the sources."""
    folder.mkdir()
    source, target = ("en", "de") if reverse else ("de", "en")
    (folder / f"src.{source}").write_text("".join(f"{line}\n" for line in TEXTS[source]))
    record = {"target_lang": target, "subset": subset, "lowercase": True, "untranslated": 0}
    (folder / "generate.json").write_text(json.dumps({**record, "reverse": True} if reverse else record))
    lines = [
        Translation(sentence, rank, text, features)
        for sentence, found in enumerate(lists)
        for rank, (text, features) in enumerate(found, start=1)
    ]
    write_nbest(folder / "nbest.tsv", lines)
    return folder


def select_on(path: Path, text: object) -> None:
    """Make a list's record, or a checkpoint, say that its training pairs were chosen to be like a text."""
    if path.is_dir():
        record = json.loads((path / "generate.json").read_text())
        (path / "generate.json").write_text(json.dumps({**record, "selected_on": text}))
    else:
        state = torch.load(path, weights_only=False)
        state["task_state"]["selected_on"] = text
        torch.save(state, path)


def plain_lists(*texts: Sequence[str]) -> Lists:
    """Lists whose model scores are -1, -2, ..., with lengths."""
    return [
        [(text, {"model": -float(rank), "length": len(text.split()) + 1.0}) for rank, text in enumerate(found, start=1)]
        for found in texts
    ]


def save_model(
    path: Path, seed: int = 1, languages: tuple[str, str] = ("de", "en"), right_to_left: bool = False, **given: Any
) -> Path:
    """A checkpoint of a small translation model."""
    state = checkpoint(seed, **given)
    state["cfg"]["task"].update(source_lang=languages[0], target_lang=languages[1])
    state["task_state"] = {"right_to_left": True} if right_to_left else {}
    torch.save(state, path)
    return path


def save_language_model(path: Path, words: int = 20) -> TransformerLanguageModel:
    """A small language model, saved as a checkpoint."""
    torch.manual_seed(3)
    sizes = {"decoder_embed_dim": 16, "decoder_output_dim": 16, "decoder_input_dim": 16, "decoder_ffn_embed_dim": 24}
    options = {**sizes, "decoder_layers": 2, "decoder_attention_heads": 4, "dropout": 0.0}
    config = TransformerLanguageModelConfig(
        **options,
        add_bos_token=False,
        tpu=False,
        max_target_positions=32,
        tokens_per_sample=32,
        share_decoder_input_output_embed=True,
    )
    model = TransformerLanguageModel.build_model(config, task(dictionary(words)))
    scramble(model)
    saved = {name: None if "${" in str(value) else value for name, value in vars(config).items()}
    state = checkpoint()
    cfg = {"model": {**saved, "_name": "transformer_lm"}, "task": {"_name": "language_modeling"}}
    torch.save({**state, "cfg": cfg, "model": model.state_dict()}, path)
    return model.eval()
