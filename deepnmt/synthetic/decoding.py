"""Translate lines of subwords, always in the same batches: the results do not depend on other work.

The search is the package's for beam and greedy search. Sampling is fairseq's, with random numbers that are seeded by
the batch; a batch has the same lines whatever was done before.
"""

import hashlib
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import deepnmt
from deepnmt.limits import DEFAULT_BEAM


@dataclass(frozen=True)
class Method:
    """How translations are found.

    Attributes:
        name: beam, greedy, sampling, or top-k
        beam: hypotheses of a beam search
        top: most probable types that are sampled from
        nbest: translations of each line
    """

    name: str = "beam"
    beam: int = DEFAULT_BEAM
    top: int = 0
    nbest: int = 1

    def generation(self) -> Namespace:
        """Return fairseq's options."""
        sampling = self.name in ("sampling", "top-k")
        return Namespace(
            beam=self.beam if self.name == "beam" else 1,
            nbest=self.nbest,
            sampling=sampling,
            sampling_topk=self.top if self.name == "top-k" else -1,
        )


class LineDecoder:
    """Translates lines of subwords with one model or an ensemble, on the GPU in half precision if there is one.

    Args:
        checkpoints: checkpoints of the models
        data: folder with their dictionaries
        languages: languages of source and target
        method: how
        batch_size: lines translated at a time
    """

    def __init__(
        self, checkpoints: Sequence[Path], data: Path, languages: tuple[str, str], method: Method, batch_size: int
    ) -> None:
        import torch
        from fairseq import checkpoint_utils

        deepnmt.register()
        from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

        source, target = languages
        config = DeepTranslationConfig(data=str(data), source_lang=source, target_lang=target)
        task = DeepTranslationTask.setup_task(config)
        models, _ = checkpoint_utils.load_model_ensemble([str(path) for path in checkpoints], task=task)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        for model in models:
            if device.type == "cuda":
                model.half()
            model.to(device).eval()
        self._connect(task, models, device, method, batch_size)

    def _connect(self, task: Any, models: Sequence[Any], device: Any, method: Method, batch_size: int) -> None:
        self.task, self.models, self.device = task, models, device
        self.generator = task.build_generator(models, method.generation())
        self.longest = min(model.max_positions()[0] for model in models)
        self.nbest, self.batch_size = method.nbest, batch_size

    @classmethod
    def of(cls, task: Any, models: Sequence[Any], method: Method, batch_size: int) -> "LineDecoder":
        """Return a decoder of models that are there already."""
        decoder = cls.__new__(cls)
        decoder._connect(task, models, next(models[0].parameters()).device, method, batch_size)
        return decoder

    def __call__(
        self, lines: Sequence[str], seed: str, done: Callable[[int], object] = lambda lines: None
    ) -> list[Optional[list[str]]]:
        """Return the translations of each line, best first, in subwords; None where it has more than the positions.

        Args:
            lines: lines in subwords
            seed: seed of sampling, of these lines alone
            done: called with the number of lines that each batch has finished
        """
        encode = self.task.source_dictionary.encode_line
        tokens = [encode(line, add_if_not_exist=False).long() for line in lines]
        results: list[Optional[list[str]]] = [None] * len(lines)
        # Lines of like length together; of equal length, in their order.
        order = sorted((n for n in range(len(lines)) if len(tokens[n]) <= self.longest), key=lambda n: len(tokens[n]))
        done(len(lines) - len(order))
        for number, start in enumerate(range(0, len(order), self.batch_size)):
            batch = order[start : start + self.batch_size]
            for place, found in self._batch([tokens[n] for n in batch], f"{seed} {number}"):
                results[batch[place]] = found
            done(len(batch))
        return results

    def _batch(self, tokens: Sequence[Any], seed: str) -> list[tuple[int, list[str]]]:
        """Return the number of each sentence of a batch, and its translations."""
        import torch
        from fairseq import utils

        dataset = self.task.build_dataset_for_inference(tokens, [len(sentence) for sentence in tokens])
        sample: Any = dataset.collater([dataset[number] for number in range(len(tokens))])
        if self.device.type == "cuda":
            sample = utils.move_to_cuda(sample)
        torch.manual_seed(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big"))
        found = self.task.inference_step(self.generator, self.models, sample)
        return [
            (number, [self._text(hypothesis["tokens"].tolist()) for hypothesis in hypotheses[: self.nbest]])
            for number, hypotheses in zip(sample["id"].tolist(), found)
        ]

    def _text(self, tokens: Sequence[int]) -> str:
        dictionary = self.task.target_dictionary
        return " ".join(dictionary[token] for token in tokens if token not in (dictionary.eos(), dictionary.pad()))
