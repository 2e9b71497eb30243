"""Features by models for all candidates of merged lists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.reranking.merged_lists import MergedLists
from deepnmt.reranking.model_scores import Kind, ModelFeature, Pairs, Scorer
from deepnmt.reranking.score_files import FOLDER, digest, keep, kept
from deepnmt.text.lines import whole_text
from deepnmt.text.translated_folder import data_settings, lines_of


def add_model_features(
    lists: MergedLists, features: Sequence[ModelFeature], data: Path, out: Path, max_tokens: int
) -> None:
    """Score all candidates by each model, and keep each model's scores in a file of OUT.

    Args:
        lists: get the features
        features: to add
        data: the data folder
        out: scores that stand there already are taken
        max_tokens: of a batch
    """
    sources, read = source_subwords(data, lists.subset, lists.reverse), read_subwords(data, lists)
    for feature in features:
        pairs = _pairs(feature, lists, read if feature.kind is Kind.TRANSLATION else sources)
        facts = [
            feature.kind.value,
            pairs,
            [whole_text(data / f"dict.{x}.txt") for x in languages(data, lists)],
        ]
        path, key = out / FOLDER / f"{feature.name}.json", digest(feature.checkpoints, facts)
        scores = kept(path, key)
        if scores is None:
            scorer = Scorer(feature, data, lists.reverse)
            # A place that nobody can write to shows before the work, and no folder is left of a model that is faulty.
            path.parent.mkdir(parents=True, exist_ok=True)
            with console.progress(len(pairs), f"scoring by {feature.name}", " translations") as bar:
                scores = scorer(pairs, max_tokens, bar.update)
            keep(path, key, scores)
        values = iter(scores)
        for candidates in lists.candidates:
            for candidate in candidates:
                candidate.features[feature.name] = next(values)


def languages(data: Path, lists: MergedLists) -> tuple[str, str]:
    """Return source and target of the translations."""
    return data_settings(data, lists.reverse).languages


def source_subwords(data: Path, subset: str, reverse: bool) -> list[str]:
    """Return the sources of a subset as subwords. Raises `UserError` if the data folder has them not as text."""
    path = data / "text" / f"{subset}.bpe.{data_settings(data, reverse).source_lang}"
    if not path.is_file():
        raise UserError(f"{path}: no such file; {data} must be a whole folder made by preprocess.sh")
    return lines_of(path)


def read_subwords(data: Path, lists: MergedLists) -> list[str]:
    """Return what models of the translations read: the sources as subwords, with a glossary's translations."""
    return lists.read or source_subwords(data, lists.subset, lists.reverse)


def _pairs(feature: ModelFeature, lists: MergedLists, sources: Sequence[str]) -> Pairs:
    """Return source and target of the model for all candidates; a language model has no source."""
    pairs = []
    for source, candidates in zip(sources, lists.candidates):
        for candidate in candidates:
            if feature.kind is Kind.REVERSE:
                pairs.append((candidate.subwords, source))
            else:
                pairs.append(("" if feature.kind is Kind.LANGUAGE else source, candidate.subwords))
    return pairs
