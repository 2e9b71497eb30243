"""log P(x) and log P(y) of the training pairs (x, y) of a data folder, for `--marginals`, by language models.

A model is an ARPA file over subwords, or a checkpoint of `deepnmt train-lm`. Both score the subwords of a sentence and
its end.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deepnmt import console
from deepnmt.checkpoints.data_fit import check_language_model
from deepnmt.errors import UserError
from deepnmt.reranking.model_scores import Kind, ModelFeature, Scorer
from deepnmt.text.data_folder import check_data_folder, check_dictionaries, check_subset, check_texts, parts_of
from deepnmt.text.lines import read_lines
from deepnmt.text.settings import TextSettings

TRAIN, ARPA = "train", ".arpa"


def write_marginals(data: Path, output: Path, models: Sequence[Path], max_tokens: int) -> None:
    """Write the file of a data folder.

    Args:
        data: folder with the text of its training pairs
        output: file to write
        models: of the source's language and of the target's
        max_tokens: of a batch of a neural model

    Raises:
        UserError: a file is missing or faulty, a model is of other subwords, or the output exists
    """
    if output.exists():
        raise UserError(f"{output} exists; remove it or choose another OUT")
    languages = TextSettings.read(data).languages
    check_data_folder(data, [TRAIN])
    dictionaries = check_dictionaries(data, languages)
    parts = {part: check_subset(data, part, languages, dictionaries) for part in parts_of(data, TRAIN, languages)}
    for part, pairs in parts.items():
        check_texts(data, part, [f"bpe.{language}" for language in languages], pairs or 0)
    for model, language, option in zip(models, languages, ("--source-lm", "--target-lm")):
        if not model.is_file():
            raise UserError(f"{option}: no such file '{model}'")
        if model.suffix != ARPA:
            check_language_model(model, data, language)
    columns = []
    for number, (model, language) in enumerate(zip(models, languages)):
        paths = (data / "text" / f"{part}.bpe.{language}" for part in parts)
        lines = [line.strip() for path in paths for line in read_lines(path)]
        if model.suffix == ARPA:
            columns.append(by_ngrams(model, lines))
        else:
            columns.append(by_network(model, data, lines, max_tokens, reverse=number == 0))
    console.write_whole(
        output, "\n".join(["\t".join(languages), *(f"{x:.6f}\t{y:.6f}" for x, y in zip(*columns))]) + "\n"
    )


def by_ngrams(path: Path, lines: Sequence[str]) -> list[float]:
    """Return log P of lines by the model of an ARPA file, in nats."""
    from deepnmt.corpus.ngram import arpa  # here, since both import scipy
    from deepnmt.corpus.ngram.ngram_model import NATS

    scores, lengths = arpa.read(path).log_probabilities(line.split() for line in lines)
    sums: list[float] = (NATS * np.add.reduceat(scores, np.cumsum(lengths) - lengths)).tolist()
    return sums


def by_network(path: Path, data: Path, lines: Sequence[str], max_tokens: int, reverse: bool) -> list[float]:
    """Return log P of lines by a language model's checkpoint, in nats; with `reverse` of the source's language."""
    scorer = Scorer(ModelFeature("lm", Kind.LANGUAGE, (path,), str(path)), data, reverse)
    with console.progress(len(lines), f"scoring by {path.name}", " lines") as bar:
        return scorer([("", line) for line in lines], max_tokens, bar.update)
