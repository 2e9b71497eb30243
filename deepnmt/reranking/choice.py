"""Which candidate of each sentence is chosen, and the folder of what was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deepnmt.reranking.bleu_statistics import Array
from deepnmt.reranking.consensus import expected_similarity
from deepnmt.reranking.corpus import Corpus
from deepnmt.reranking.feature_table import Choice, FeatureTable
from deepnmt.reranking.merged_lists import MergedLists
from deepnmt.reranking.oracle import oracle
from deepnmt.text.nbest import FILE, Translation, write_nbest
from deepnmt.text.record import write_record
from deepnmt.text.subwords import join_bpe
from deepnmt.text.translated_folder import write_translations

CONSENSUS = "consensus"


@dataclass(frozen=True)
class Chosen:
    """Candidates in the order of what they were chosen by.

    Attributes:
        orders: places of each sentence's candidates, the best first
        places: the best of each sentence, N; 0 where there is none
    """

    orders: list[list[int]]

    @property
    def places(self) -> Choice:
        """The best place of each sentence, N; 0 where there is none."""
        return np.array([order[0] if order else 0 for order in self.orders], dtype=np.intp)

    def write(
        self, folder: Path, data: Path, lists: MergedLists, report: Mapping[str, Any], selected_on: Sequence[object]
    ) -> None:
        """Write the translations, all candidates in order, and the report.

        Args:
            folder: to write to
            data: the data folder
            lists: that the choice is from
            report: how the choice was made
            selected_on: the texts that the models' training pairs were chosen to be like
        """
        in_order = [[found[place] for place in order] for found, order in zip(lists.candidates, self.orders)]
        best = [join_bpe(found[0].subwords) if found else "" for found in in_order]
        write_nbest(
            folder / FILE,
            (
                Translation(sentence, rank, candidate.subwords, candidate.features)
                for sentence, found in enumerate(in_order)
                for rank, candidate in enumerate(found, start=1)
            ),
        )
        left_out = sum(not found for found in in_order)
        write_translations(folder, best, data, lists.subset, left_out, lists.reverse, selected_on)
        write_record(folder / "rerank.json", dict(report))


def by_weights(lists: MergedLists, table: FeatureTable, weights: Array) -> Chosen:
    """Return the order of weighted sums of features."""
    scores = table.scores(weights)
    return Chosen([_order(row[: len(found)]) for row, found in zip(scores, lists.candidates)])


def by_consensus(lists: MergedLists, corpus: Corpus, metric: str, posterior: str) -> Chosen:
    """Return the order of expected similarity, which becomes a feature.

    Args:
        lists: get the feature
        corpus: the candidates' texts
        metric: of similarity
        posterior: what P(y) is: "model" or "share"
    """
    orders = []
    for texts, found in zip(corpus.texts, lists.candidates):
        chances = [each.probability if posterior == "model" else each.share for each in found]
        values = expected_similarity(texts, chances, metric, corpus.tokenize) if found else np.empty(0)
        for candidate, value in zip(found, values):
            candidate.features[CONSENSUS] = float(value)
        orders.append(_order(values))
    return Chosen(orders)


def oracle_bleu(corpus: Corpus) -> float:
    """Return the BLEU of the best choice that was found."""
    counts = np.array([len(texts) for texts in corpus.texts], dtype=np.intp)
    return corpus.bleu(oracle(corpus.statistics, counts))


def _order(scores: Array) -> list[int]:
    """Return places by score, the best first; equal ones stay in order."""
    return [int(place) for place in np.argsort(-scores, kind="stable")]
