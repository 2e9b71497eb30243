"""The model card of a folder, README.md, from the folder's record and scores."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from deepnmt.engines.model_folder import ModelFolder
from deepnmt.engines.torch.inference_model import InferenceOptions
from deepnmt.model.stack import STACKS


def card(folder: ModelFolder, scores: Mapping[str, Any]) -> str:
    """Return the text of the card.

    Args:
        folder: with the result of its check
        scores: of `deepnmt score`, by their names; empty: none
    """
    source, target = folder.text.languages
    return "\n".join(
        (
            "---",
            # Quoted, since YAML takes the code of Norwegian for false.
            f"language:\n- {json.dumps(source)}\n- {json.dumps(target)}",
            "library_name: transformers",
            "pipeline_tag: translation",
            "tags:\n- deepnmt",
            "---",
            "",
            f"# Translation from {source} to {target}",
            "",
            *_use(folder),
            *_model(folder),
            *_scores(folder, scores),
        )
    )


def _use(folder: ModelFolder) -> Iterator[str]:
    yield from (
        "## Use",
        "",
        "`pip install 'deepnmt[transformers]'`; the second line registers the tokeniser and, where needed, the model.",
        "",
        "```python",
        "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer",
        "import deepnmt.engines.transformers",
        "",
        'folder = "path/to/this/folder"',
        "tokenizer = AutoTokenizer.from_pretrained(folder)",
        "model = AutoModelForSeq2SeqLM.from_pretrained(folder)",
        'batch = tokenizer(["A sentence."], return_tensors="pt", padding=True)',
        "print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))",
        "```",
        "",
        "`deepnmt translate FOLDER` translates with the same folder.",
        "",
    )


def _model(folder: ModelFolder) -> Iterator[str]:
    values = folder.architecture["models"][0]
    options = InferenceOptions(values)
    yield from ("## Model", "", "| | encoder | decoder |", "| --- | --- | --- |")
    rows = {"layers": "layers", "embed_dim": "width", "ffn_embed_dim": "feed-forward width", "attention_heads": "heads"}
    rows |= {"groups": "groups (DLCL: 1)", "max_relative_length": "relative positions up to"}
    for name, label in rows.items():
        yield f"| {label} | {values[f'encoder_{name}']} | {values[f'decoder_{name}']} |"
    yield f"| layer norm | {' | '.join(options.norm(stack).name for stack in STACKS)} |"
    yield f"| self-attention | {' | '.join(options.stack(stack).self_attention.name for stack in STACKS)} |"
    yield ""
    yield (
        f"Sentences have at most {folder.longest} subwords. The search keeps {folder.search.beam} hypotheses, with the "
        f"length penalty {folder.search.lenpen:g}."
    )
    yield ""


def _scores(folder: ModelFolder, scores: Mapping[str, Any]) -> Iterator[str]:
    yield from ("## Scores", "")
    if scores:
        yield from ("| metric | score | signature |", "| --- | --- | --- |")
        for name, entry in scores.items():
            # A vertical bar ends a cell, in code too.
            signature = entry["signature"].replace("|", r"\|")
            yield f"| {name} | {entry['score']:.2f} | `{signature}` |"
        yield ""
    if not (check := folder.check).get("pairs"):
        yield "The exported model was not compared with its checkpoint.\n"
        return
    yield (
        f"On {check['pairs']} validation pairs, BLEU is {check['bleu']:.2f} (checkpoint: "
        f"{check['bleu_of_checkpoints']:.2f}). Log-probabilities differ from the checkpoint's by at most "
        f"{check['largest_difference']:g}.\n"
    )
