"""How often a beam search misses the best string: an exhaustive search for each sentence, and a report."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq import checkpoint_utils
from fairseq.data.data_utils import collate_tokens

import deepnmt
from deepnmt import console
from deepnmt.checkpoints.data_fit import trained_settings
from deepnmt.console import write_whole
from deepnmt.errors import UserError
from deepnmt.jobs.in_place import InPlace
from deepnmt.search.exact import MARGIN, String, best_string, sentence_predictor, string_log_prob
from deepnmt.search.generator import BeamGenerator
from deepnmt.text.data_folder import subset_prefix
from deepnmt.text.lines import read_lines
from deepnmt.text.record import INPUT, sha256

REPORT, LINES = "search_errors.json", "sentences.tsv"
TOGETHER = 32  # sentences of a beam search


class Sentence(NamedTuple):
    """A line of sentences.tsv.

    Attributes:
        number: number in the subset
        seconds: duration of the exhaustive search
        complete: 1, or 0 where time ran out
        expanded: prefixes
        best: log P of the best string
        length: its tokens, without the end symbol
        beams: log P of each beam's result
    """

    number: int
    seconds: float
    complete: int
    expanded: int
    best: float
    length: int
    beams: tuple[float, ...]

    def line(self) -> str:
        """Return the line."""
        numbers = [self.number, f"{self.seconds:.2f}", self.complete, self.expanded, repr(self.best), self.length]
        return "\t".join(map(str, [*numbers, *map(repr, self.beams)])) + "\n"

    @classmethod
    def of(cls, line: str) -> Sentence:
        """Return the sentence of a line."""
        number, seconds, complete, expanded, best, length, *beams = line.split("\t")
        counts = int(number), float(seconds), int(complete), int(expanded), float(best), int(length)
        return cls(*counts, tuple(map(float, beams)))


def report(done: Sequence[Sentence], beams: Sequence[int]) -> dict[str, Any]:
    """Return the figures.

    A beam has an error if a better string is known, from the exhaustive search or from another beam. It has no error
    if the exhaustive search ended without a better string. Otherwise, the answer is unknown.
    """
    complete = [each for each in done if each.complete]
    count = max(len(done), 1)
    figures = []
    for place, beam in enumerate(beams):
        errors = [each for each in done if each.best > each.beams[place] + MARGIN]
        unknown = sum(not each.complete for each in done if each not in errors)
        figures.append(
            {
                "beam": beam,
                "search_errors": len(errors) / count,
                "unknown": unknown / count,
                "mean_log_prob": sum(each.beams[place] for each in done) / count,
            }
        )
    return {
        "sentences": len(done),
        "out_of_time": (len(done) - len(complete)) / count,
        "empty_is_best": sum(each.length == 0 for each in complete) / max(len(complete), 1),
        "beams": figures,
    }


def shown(figures: dict[str, Any]) -> str:
    """Return the figures as a table."""
    lines = [
        f"{figures['sentences']} sentences; out of time: {figures['out_of_time']:.1%}; "
        f"the empty string is the best of {figures['empty_is_best']:.1%} of the others",
        "beam  a better string exists  unknown  mean log P",
    ]
    for each in figures["beams"]:
        lines.append(
            f"{each['beam']:4}  {each['search_errors']:22.1%}  {each['unknown']:7.1%}  {each['mean_log_prob']:10.3f}"
        )
    return "\n".join(lines)


def checksums(paths: Sequence[str], data: Path, subset: str, languages: tuple[str, str]) -> dict[str, str]:
    """Return the checksum of each file that the result depends on, since a path may lead to another file by now."""
    prefix = subset_prefix(data, subset, languages)
    dictionaries = [data / f"dict.{language}.txt" for language in languages]
    sources = [Path(f"{prefix}.{languages[0]}.{ending}") for ending in ("bin", "idx")]
    return {str(path): sha256(path) for path in [*map(Path, paths), *dictionaries, *sources]}


def sentences_done(folder: Path) -> list[Sentence]:
    """Return the finished sentences."""
    if not (folder / LINES).exists():
        return []
    # Where it was killed, half a line may be left.
    lines = [line for line in read_lines(folder / LINES) if line.endswith("\n")]
    write_whole(folder / LINES, "".join(lines))
    return [Sentence.of(line) for line in lines]


def beam_results(models: Sequence[Any], task: Any, sources: Sequence[Any], beam: int, longest: int) -> list[String]:
    """Return the string that the beam search finds for each source, without a length penalty."""
    dictionary = task.target_dictionary
    generator = BeamGenerator(models, dictionary, beam_size=beam, max_len_b=longest, min_len=0, normalize_scores=False)
    tokens = collate_tokens(list(sources), task.source_dictionary.pad(), left_pad=task.cfg.left_pad_source)
    lengths = torch.tensor([len(source) for source in sources])
    found = generator.generate(models, {"net_input": {"src_tokens": tokens, "src_lengths": lengths}})
    return [tuple(hypotheses[0]["tokens"].tolist()[:-1]) for hypotheses in found]


def search_all(
    models: Sequence[Any], task: Any, left: Sequence[int], settings: dict[str, Any], done: list[Sentence], out: Path
) -> None:
    """Search the sentences that are left, and add each to `done` and to the file as soon as it is there."""
    dataset, dictionary = task.dataset(settings["subset"]).src, task.target_dictionary
    eos, pad = dictionary.eos(), dictionary.pad()
    # The end symbol takes a position.
    longest = min(settings["max_len"], *(model.max_decoder_positions() - 1 for model in models))
    bar = console.progress(len(left) + len(done), "searching", " sentences", len(done))
    with (out / LINES).open("a", encoding="utf-8") as file, torch.no_grad(), bar:
        for start in range(0, len(left), TOGETHER):
            numbers = left[start : start + TOGETHER]
            sources = [dataset[number] for number in numbers]
            found = [beam_results(models, task, sources, beam, longest) for beam in settings["beams"]]
            for number, source, *strings in zip(numbers, sources, *found):
                predict = sentence_predictor(models, source, eos, pad)
                scores = {string: string_log_prob(predict, string, eos) for string in set(strings)}
                first = max(scores, key=lambda string: scores[string])
                begun = time.monotonic()
                best = best_string(predict, first, scores[first], eos, pad, longest, settings["limit"])
                seconds, beams = time.monotonic() - begun, tuple(scores[string] for string in strings)
                length = len(best.string)
                each = Sentence(number, seconds, int(best.complete), best.expanded, best.log_prob, length, beams)
                file.write(each.line())
                file.flush()
                done.append(each)
                bar.update()


def search_errors(
    checkpoints: str,
    data: Path,
    out: Path,
    subset: str = "test",
    limit: float = 10,
    beams: Sequence[int] = (1, 5, 50),
    max_len: int = 200,
    sentences: int | None = None,
) -> dict[str, Any]:
    """Search, write sentences.tsv and search_errors.json, and return the figures.

    Args:
        checkpoints: checkpoints of one model, or of an ensemble with colons between them
        data: the data folder
        out: folder to make, or to go on with
        subset: subset of the data
        limit: seconds for the exhaustive search of a sentence
        beams: beams to compare
        max_len: tokens of the longest string
        sentences: the first of the subset; None for all

    Raises:
        UserError: files or options do not match, or the folder belongs to another job or is in use
    """
    paths = checkpoints.split(os.pathsep)
    languages = trained_settings([Path(path) for path in paths], data).languages
    settings = {
        "checkpoints": checkpoints,
        "data": str(data),
        "subset": subset,
        "limit": limit,
        "beams": list(beams),
        "max_len": max_len,
    }
    deepnmt.register()
    # fairseq reports every step.
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    overrides = {"data": str(data), "source_lang": languages[0], "target_lang": languages[1]}
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(paths, overrides)
    for model in models:
        model.eval()
    task.load_dataset(subset, task_cfg=task.cfg)
    inputs = checksums(paths, data, subset, languages)
    # As in other searches.
    positions = min(model.max_positions()[0] for model in models)
    sizes = task.dataset(subset).src_sizes[:sentences]
    wanted = [number for number, size in enumerate(sizes) if size <= positions]
    if not wanted:
        raise UserError(f"{subset} must have sentences within the model's {positions} positions, but all are longer")
    made_with = {"settings": settings, "inputs": inputs}
    job = InPlace(console.program("search-errors"), out, REPORT, made_with, "--out", late=(INPUT,))
    with job.begun():
        known = {*wanted}
        done = [each for each in sentences_done(out) if each.number in known]
        finished = {each.number for each in done}
        search_all(models, task, [number for number in wanted if number not in finished], settings, done, out)
        figures = {**report(done, beams), "too_long": len(sizes) - len(wanted)}
        replace(job, told=figures).write()
    if figures["too_long"]:
        print(
            f"warning: {figures['too_long']} of {len(sizes)} sentences were not searched, for they are longer than the "
            "model's positions",
            file=sys.stderr,
        )
    return figures
