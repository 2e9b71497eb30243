"""The CTranslate2 engine: plain Transformers on the CPU, faster than in torch (`writer.py`).

Its beam search has fairseq's results, apart from these differences, which this module corrects:

    first step   fairseq's hypotheses cannot end in the first step; here they may, and empty ones are left out
    last step    fairseq's hypotheses must end at the greatest length; here the end symbol and its probability are added
    padding      fairseq never chooses it; here it ends a hypothesis, which is left out
    the n best   fairseq keeps the first n hypotheses that end; CTranslate2 sorts all of them before it cuts

CTranslate2 could forbid both symbols, but does so before the softmax, which changes all scores. A dropped hypothesis
has taken the place of another one, so such a sentence is searched again for twice as many hypotheses.

With int8 and with narrow models, each thread searches its own share of a batch. Threads that shared one would wait for
each other, spinning, several times in every layer of every step. On a busy machine, that takes many times the work.
Single sentences of wide models in float32 are twice as fast when all threads compute one product.
"""

from __future__ import annotations

import json
import logging
import math
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import ctranslate2

from deepnmt.engines.engine import Hypothesis, SearchSettings
from deepnmt.engines.model_folder import ModelFolder
from deepnmt.errors import UserError
from deepnmt.text.dictionary import read_types
from deepnmt.text.in_order import cores
from deepnmt.text.lines import whole_text

logger = logging.getLogger(__name__)

# The folder of CTranslate2's files in a model folder. Its config.json also holds the numbers of source and target
# positions, the end symbol counted.
FILES = "ctranslate2"
LONGEST_SOURCE, LONGEST_TARGET = "longest_source", "longest_target"
PADDING = "<pad>"
# An exponent of the length that makes CTranslate2 return the hypotheses that ended first. A shorter one precedes
# a longer one unless its log-probability is far worse. 1024 ** 10 is still a float32.
SHORT_FIRST = -10
# Rows whose probabilities of all types are in memory at once, for each thread.
SCORED = 64
# Channels of the widest models in float32 of which threads search shares of a batch; the least sentences of a share.
NARROW, SHARE = 128, 4
FLAGS = Path("/proc/cpuinfo")
X86 = ("x86_64", "amd64")
VNNI = {"avx512_vnni", "avx_vnni"}


def load(folder: ModelFolder, threads: int | None) -> CTranslate2Engine:
    """Return the engine of a model folder.

    Raises:
        UserError: the processor lacks instructions for the weights, CTranslate2 cannot read its files, or a dictionary
            has other types than these
    """
    if folder.weights not in ctranslate2.get_supported_compute_types("cpu"):
        raise UserError(f"--weights {folder.weights}: ctranslate2 cannot compute with them on this processor")
    files = folder.path / FILES
    try:
        widths = [model.get("decoder_embed_dim", math.inf) for model in folder.architecture.get("models", [])]
        engine = CTranslate2Engine(files, folder.weights, threads, max(widths, default=math.inf) <= NARROW)
    # CTranslate2 raises RuntimeError for every fault; a config.json without one of our keys raises KeyError.
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{files}: must be a model that CTranslate2 can read, but is not: {reason}") from None
    for side, language in (("source", folder.source_lang), ("target", folder.target_lang)):
        path = folder.dictionary(language)
        if read_types(path) != engine.vocabularies[side]:
            raise UserError(f"{path}: must have the types of {files}, in their order, but has others")
    return engine


class _Found(NamedTuple):
    """A CTranslate2 hypothesis: its tokens, the ending symbol included if there is one, and its score."""

    tokens: list[str]
    score: float


class CTranslate2Engine:
    """See `deepnmt.engines.engine.Engine`; the weights are "float32" or "int8"."""

    def __init__(self, files: Path, weights: str = "float32", threads: int | None = None, narrow: bool = True) -> None:
        compute = weights
        if weights == "int8" and not sums_int8_exactly():
            logger.info("CTranslate2 computes int8 weights in float32: without VNNI, its sums of int8 overflow")
            compute = "float32"
        threads = threads or cores()
        self.threads, computing = (threads, 1) if narrow or compute == "int8" else (1, threads)
        self.translator = ctranslate2.Translator(
            str(files), compute_type=compute, inter_threads=self.threads, intra_threads=computing
        )
        config = json.loads(whole_text(files / "config.json"))
        self.eos, self.bos = str(config["eos_token"]), str(config["bos_token"])
        self.longest = int(config[LONGEST_SOURCE]) - 1
        self.positions = int(config[LONGEST_TARGET])
        # CTranslate2 itself may take an empty one.
        self.vocabularies = {side: self._vocabulary(files, side) for side in ("source", "target")}

    def _vocabulary(self, files: Path, side: str) -> list[str]:
        """Return the types of a side by their numbers."""
        shared = files / "shared_vocabulary.json"
        path = shared if shared.exists() else files / f"{side}_vocabulary.json"
        types: list[str] = json.loads(whole_text(path))
        if self.eos not in types:
            raise ValueError(f"{path.name} must have {self.eos}, but has not")
        return types

    def check(self, settings: SearchSettings) -> None:
        """See `Engine`."""
        settings.without_more("ctranslate2")

    def search(self, sentences: Sequence[Sequence[str]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """See `Engine`."""
        settings = settings.without_more("ctranslate2")
        if not sentences:
            return []
        longest = int(settings.max_len_a * (max(map(len, sentences)) + 1) + settings.max_len_b)
        longest = min(longest, self.positions - 1)
        if settings.beam == 1:
            return self._greedy([list(sentence) for sentence in sentences], settings, longest)
        results: list[list[Hypothesis]] = [[] for _ in sentences]
        waiting, patience = list(range(len(sentences))), 1
        while waiting:
            sources = [list(sentences[number]) for number in waiting]
            left = []
            for number, source, found in zip(waiting, sources, self._found(sources, settings, longest, patience)):
                usable = [each for each in found if self._is_usable(each)]
                if patience == 1:
                    settled = len(found) == sum(self._has_ended(each) for each in usable)
                else:
                    # With fewer hypotheses than requested, the search has reached its last step.
                    settled = len(usable) >= settings.beam or len(found) < patience * settings.beam
                if settled:
                    results[number] = self._best(source, usable or found, settings)
                else:
                    left.append(number)
            waiting, patience = left, patience * 2
        return results

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """See `Engine`."""
        if not sources:
            return []
        scored = self.translator.score_batch(
            [list(source) for source in sources],
            [list(target) for target in targets],
            max_batch_size=SCORED,
            max_input_length=0,
        )
        return [list(result.log_probs) for result in scored]

    def _found(
        self, sources: list[list[str]], settings: SearchSettings, longest: int, patience: int
    ) -> list[list[_Found]]:
        """Return CTranslate2's hypotheses of each sentence, `patience` times the beam size."""
        found = self.translator.translate_batch(
            sources,
            max_batch_size=self._share(sources),
            beam_size=settings.beam,
            patience=patience,
            num_hypotheses=patience * settings.beam,
            length_penalty=SHORT_FIRST,
            end_token=[self.eos, PADDING],
            min_decoding_length=0,
            max_decoding_length=longest,
            max_input_length=0,
            return_end_token=True,
            return_scores=True,
        )
        return [[_Found(*pair) for pair in zip(result.hypotheses, result.scores)] for result in found]

    def _greedy(self, sources: list[list[str]], settings: SearchSettings, longest: int) -> list[list[Hypothesis]]:
        """Return the hypothesis of each sentence in which each token is the best one."""
        # Symbols forbidden before the softmax change scores here, too, but not the choice.
        found = self.translator.translate_batch(
            sources,
            max_batch_size=self._share(sources),
            beam_size=1,
            suppress_sequences=[[PADDING]],
            min_decoding_length=1,
            max_decoding_length=longest,
            max_input_length=0,
        )
        tokens = [result.hypotheses[0] for result in found]
        return [
            [self._hypothesis(chosen, sum(scores), settings)]
            for chosen, scores in zip(tokens, self.score(sources, tokens))
        ]

    def _share(self, sources: Sequence[object]) -> int:
        """Return the greatest number of sentences that a thread gets at once."""
        return max(SHARE, -(-len(sources) // self.threads))

    def _is_usable(self, found: _Found) -> bool:
        """Return whether fairseq's search can have reached a hypothesis."""
        return found.tokens[-1] != PADDING and found.tokens != [self.eos]

    def _has_ended(self, found: _Found) -> bool:
        return found.tokens[-1] == self.eos

    def _best(self, source: list[str], found: list[_Found], settings: SearchSettings) -> list[Hypothesis]:
        """Return the hypotheses that fairseq would have found, the best first."""
        scored = []
        endless = [each.tokens for each in found if not self._has_ended(each)]
        sums = iter(map(sum, self.score([source] * len(endless), endless)))
        for tokens, score in found:
            if tokens[-1] == self.eos:
                scored.append((tokens[:-1], score * float(len(tokens)) ** SHORT_FIRST))
            else:
                scored.append((tokens, next(sums)))
        # Its search ends with as many hypotheses as the beam has; if several end in one step, the best come first.
        scored.sort(key=lambda pair: (len(pair[0]), -pair[1]))
        kept = [self._hypothesis(tokens, total, settings) for tokens, total in scored[: settings.beam]]
        return sorted(kept, key=lambda hypothesis: -hypothesis.score)[: settings.nbest]

    def _hypothesis(self, tokens: list[str], total: float, settings: SearchSettings) -> Hypothesis:
        """Return a hypothesis, given without its end symbol and with the sum of its log-probabilities."""
        # As fairseq prints them.
        printed = [token for token in tokens if token not in (self.eos, self.bos, PADDING)]
        return Hypothesis(printed, total / (len(tokens) + 1) ** settings.lenpen)


def sums_int8_exactly() -> bool:
    """Return whether products of int8 are summed in 32 bits; on x86 without VNNI, sums of two saturate at 16 bits.

    If this cannot be determined, the answer is no.
    """
    if platform.machine().lower() not in X86:
        return True
    try:
        text = whole_text(FLAGS, errors="replace")
    except OSError:
        return False
    return any(line.startswith("flags") and VNNI & set(line.split()) for line in text.splitlines())
