"""The transformers engine: transformers' models and beam search, without fairseq.

Files of its model folders: config.json, generation_config.json, tokenizer_config.json and README.md, and
model.safetensors, which the torch engine reads too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM, GenerationConfig, LogitsProcessor, LogitsProcessorList

from deepnmt.engines.engine import Engine, Hypothesis, SearchSettings
from deepnmt.engines.model_folder import RECORD, ModelFolder
from deepnmt.engines.padding import PADDING, numbers, padded, scored_by_length
from deepnmt.errors import UserError
from deepnmt.text.dictionary import END, SPECIAL_SYMBOLS, read_types
from deepnmt.text.record import check_kinds

BEGIN = SPECIAL_SYMBOLS.index("<s>")


def load(folder: ModelFolder, threads: int | None) -> Engine:
    """Return the engine of a model folder.

    Raises:
        UserError: transformers cannot read the folder, or a dictionary has another number of types than the model
    """
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with quiet():
            safely: dict[str, bool] = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
            model = AutoModelForSeq2SeqLM.from_pretrained(folder.path, **safely)
    except Exception as error:  # of many kinds, which share no base class of their own
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"{folder.path}: must be a model that transformers can read, but is not: {reason}") from error
    # None is still in the file, which may be overwritten.
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()
    engine = TransformersEngine(model.eval(), folder)
    tables = model.get_input_embeddings(), model.get_output_embeddings()
    for language, types, table in zip(folder.text.languages, (engine.source, engine.target), tables):
        if len(types) != len(table.weight):
            path = folder.dictionary(language)
            raise UserError(f"{path}: must have the {len(table.weight)} types of the model, but has {len(types)}")
    return engine


class TransformersEngine:
    """See `Engine`; on the CPU. Its n-best lists may differ from fairseq's, the best translations only in ties."""

    def __init__(self, model: Any, folder: ModelFolder) -> None:
        self.model = model
        source, self.types = (read_types(folder.dictionary(language)) for language in folder.text.languages)
        self.source, self.target = ({name: number for number, name in enumerate(each)} for each in (source, self.types))
        self.longest, self.longest_target = folder.longest, longest_target(folder)
        # One search uses all of torch's threads: several at once would take turns, with several times the memory.
        self._lock = threading.Lock()

    def check(self, settings: SearchSettings) -> None:
        """See `Engine`."""
        settings.without_more("transformers")

    def search(self, sentences: Sequence[Sequence[str]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """See `Engine`."""
        settings.without_more("transformers")
        if not sentences:
            return []
        tokens = padded([numbers(sentence, self.source) for sentence in sentences])
        longest = min(int(settings.max_len_a * tokens.size(1) + settings.max_len_b), self.longest_target)
        config = generation(settings, longest, beams=min(settings.beam, len(self.types) - 1))
        with self._lock, torch.no_grad(), quiet():
            found = self.model.generate(
                input_ids=tokens,
                attention_mask=tokens.ne(PADDING).long(),
                generation_config=config,
                logits_processor=LogitsProcessorList([LastEnds(longest)]),
            )
        # The first token begins the search.
        rows = [_without_end(row) for row in found[:, 1:].tolist()]
        each = len(rows) // len(sentences)
        names = [[self.types[number] for number in row] for row in rows]
        scores = self.score([sentence for sentence in sentences for _ in range(each)], names)
        hypotheses = [
            Hypothesis([name for name in row if name != "<s>"], sum(score) / len(score) ** settings.lenpen, sum(score))
            for row, score in zip(names, scores)
        ]
        return [hypotheses[start : start + each] for start in range(0, len(hypotheses), each)]

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """See `Engine`."""
        with self._lock, torch.no_grad():
            return scored_by_length(self._scores, sources, targets)

    def _scores(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return the same of one batch."""
        tokens = padded([numbers(sentence, self.source) for sentence in sources])
        expected = padded([numbers(target, self.target) for target in targets])
        previous = torch.cat([torch.full_like(expected[:, :1], END), expected[:, :-1]], dim=1)
        # With a cache, FSMT's positions see later ones.
        logits = self.model(
            input_ids=tokens, attention_mask=tokens.ne(PADDING).long(), decoder_input_ids=previous, use_cache=False
        ).logits
        picked = logits.float().log_softmax(-1).gather(2, expected.unsqueeze(2)).squeeze(2).tolist()
        return [row[: len(target) + 1] for row, target in zip(picked, targets)]


class LastEnds(LogitsProcessor):  # type: ignore[misc]
    """Allows the end symbol alone after the longest translation, with its own probability, as fairseq does."""

    def __init__(self, longest: int) -> None:
        self.longest = longest

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return log-probabilities, rows x V, for the tokens so far; the first one begins the search."""
        if input_ids.size(1) <= self.longest:
            return scores
        ended = torch.full_like(scores, -torch.inf)
        ended[:, END] = scores[:, END]
        return ended


def generation(settings: SearchSettings, longest: int, beams: int | None = None) -> GenerationConfig:
    """Return the settings of transformers' search that find fairseq's best translation of at most `longest` tokens."""
    beams = beams or settings.beam
    several = {"early_stopping": True, "length_penalty": settings.lenpen} if beams > 1 else {}
    return GenerationConfig(
        num_beams=beams,
        num_return_sequences=min(settings.nbest, beams),
        do_sample=False,
        # fairseq forbids the empty translation, and padding.
        min_new_tokens=1,
        suppress_tokens=[PADDING],
        # And the end symbol.
        max_new_tokens=longest + 1,
        bos_token_id=BEGIN,
        pad_token_id=PADDING,
        eos_token_id=END,
        decoder_start_token_id=END,
        **several,
    )


def longest_target(folder: ModelFolder) -> int:
    """Return the number of subwords in the longest translation of a folder's model. Raises `UserError` without it."""
    name = "max_target_positions"
    options: dict[str, Any] = next(iter(folder.architecture.get("models", ())), {})
    check_kinds(folder.path / RECORD, options, {name: int}, "architecture.models.0.")
    # The end symbol takes a position.
    return int(options[name]) - 1


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from showing progress and advice."""
    log = transformers.logging
    level, bar = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bar:
            log.enable_progress_bar()


def _without_end(row: list[int]) -> list[int]:
    """Return the tokens before the end symbol."""
    return row[: row.index(END)] if END in row else [number for number in row if number != PADDING]
