"""Score the translations in a folder made by generate.sh.

Tokenised BLEU compares hyp.tok.LANG with ref.tok.LANG as they stand, or by characters where a language has no
spaces between words, which is what most papers on small corpora
report (multi-bleu.perl, fairseq-score). BLEU, chrF and TER compare hyp.LANG with ref.LANG, the untokenised text,
by sacrebleu's own tokenisation; only those can be compared with other people's. Chinese has a tokenisation of its own
there; of other languages without spaces between words, characters are compared. On lower-cased data all are
case-insensitive. With --split-compounds, tokenised BLEU stands a second time with words split at hyphens in both texts,
which some papers report (fairseq's compound_split_bleu.sh). The scores are printed, and written to OUT_DIR/scores.json
with their signatures.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.casing import Casing
from deepnmt.text.languages import bleu_tokenizer, is_unspaced
from deepnmt.text.lines import read_text
from deepnmt.text.record import read_record
from deepnmt.text.token_bleu import TokenBleu
from deepnmt.text.translated_folder import RECORD, data_settings

TOKENISED, COMPOUNDS = "tokenised BLEU", "compounds split"


def read_pair(hypothesis: Path, reference: Path) -> tuple[list[str], list[str]]:
    """Return hypotheses and references. Raises `UserError` if their numbers differ."""
    hypotheses, references = read_text(hypothesis), read_text(reference)
    if len(hypotheses) != len(references):
        raise UserError(f"{hypothesis} has {len(hypotheses)} lines, but {reference} has {len(references)}")
    return hypotheses, references


def tokenised_bleu(language: str) -> BLEU:
    """Return the metric that compares texts in tokens, by the words of their language."""
    # multi-bleu.perl and fairseq-score do not smooth.
    return TokenBleu(language, smooth_method="none")


def score(metric: Any, hypotheses: list[str], references: list[str]) -> dict[str, Any]:
    """Return one score of a corpus, with sacrebleu's signature."""
    result = metric.corpus_score(hypotheses, [references])
    entry = {"score": round(result.score, 2), "signature": str(metric.get_signature())}
    if isinstance(metric, BLEU):
        precisions = "/".join(f"{precision:.1f}" for precision in result.precisions)
        entry["details"] = f"{precisions} (BP {result.bp:.3f}, {result.sys_len} tokens, reference {result.ref_len})"
    return entry


def split_compounds(line: str) -> str:
    """Return a line's tokens with the hyphens inside them as tokens, as fairseq and tensor2tensor do."""
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)


def score_folder(
    folder: Path, language: str, lowercase: bool, compounds: bool = False, case_language: str = ""
) -> dict[str, dict[str, Any]]:
    """Return all the scores of a folder; detokenised ones only where it has an untokenised reference.

    Args:
        folder: of translations and references
        language: of both
        lowercase: case does not count
        compounds: score with words split at hyphens, too
        case_language: by whose rules text is lower-cased; empty: those that hold for all, as sacrebleu has them
    """
    tokenised = tokenised_bleu(language)
    texts = read_pair(folder / f"hyp.tok.{language}", folder / f"ref.tok.{language}")
    scores = {TOKENISED: score(tokenised, *texts)}
    if compounds:
        # Where characters are compared, there are no compounds to split.
        split = texts if is_unspaced(language) else [[split_compounds(line) for line in text] for text in texts]
        scores[COMPOUNDS] = score(tokenised, *split)
    if (folder / f"ref.{language}").exists():
        pair = read_pair(folder / f"hyp.{language}", folder / f"ref.{language}")
        if lowercase:
            lower = Casing(case_language).lower
            pair = [*map(lower, pair[0])], [*map(lower, pair[1])]
        scores["BLEU"] = score(BLEU(lowercase=lowercase, tokenize=bleu_tokenizer(language)), *pair)
        scores["chrF"] = score(CHRF(lowercase=lowercase), *pair)
        # sacrebleu's own default for TER is to ignore case.
        signs = is_unspaced(language)
        scores["TER"] = score(TER(normalized=signs, asian_support=signs), *pair)
    return scores


def facts(folder: Path, data: Path | None, reverse: bool) -> tuple[str, bool]:
    """Return the language of translations, and whether it is lower-cased.

    Args:
        folder: the translations
        data: the data folder; None: the record of the translations says it
        reverse: they are of the other direction

    Raises:
        UserError: a record is missing or faulty, or the translations' own says another direction
    """
    settings = read_record(data / "preprocess.json" if data else folder / RECORD, target_lang=str, lowercase=bool)
    if (
        (folder / RECORD).exists()
        and bool(read_record(folder / RECORD).get("reverse")) != reverse
        and (reverse or data)
    ):
        way = "in the direction of DATA" if reverse else "in the other direction"
        raise UserError(
            f"--reverse: must {'not ' if reverse else ''}be given for {folder}, which {folder / RECORD} says is {way}"
        )
    if data is not None:
        return data_settings(data, reverse).target_lang, settings["lowercase"]
    return settings["target_lang"], settings["lowercase"]


def main() -> None:
    """Score the folder named on the command line."""
    parser = console.Parser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="OUT_DIR", help="the folder made by generate.sh")
    parser.add_argument("--split-compounds", action="store_true", help="score with words split at hyphens too")
    parser.add_argument("--reverse", action="store_true", help="the translations are of the other direction")
    parser.add_argument("data", type=Path, nargs="?", metavar="DATA", help="the data, if OUT_DIR has no generate.json")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    language, lowercase = facts(folder, arguments.data, arguments.reverse)

    record = arguments.data / "preprocess.json" if arguments.data else folder / RECORD
    case_language = language if read_record(record).get("language_case") else ""
    scores = score_folder(folder, language, lowercase, arguments.split_compounds, case_language)
    with console.whole_file(folder / "scores.json") as temporary:
        temporary.write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")
    for name, entry in scores.items():
        print(f"{name:<15} {entry['score']:6.2f}  {entry.get('details', '')}".rstrip())
        print(f"{'':<24}{entry['signature']}")
    if "BLEU" not in scores:
        print("no detokenised scores: the data was --pretokenized, and has no --raw-test or --raw-valid text")


if __name__ == "__main__":
    console.run(main)
