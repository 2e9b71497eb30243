"""Scores of translations, in a folder of deepnmt generate or in two texts.

Tokenised BLEU compares unchanged tokens, or characters where a language has no spaces between words. Most papers on
small corpora report it (multi-bleu.perl, fairseq-score). BLEU, chrF and TER compare untokenised text by sacrebleu's own
tokenisation; only these scores are comparable with published ones. Chinese has a tokenisation of its own there; for
other languages without spaces between words, characters are compared. On lower-cased data all are case-insensitive.
Tokenised BLEU can be reported a second time with words split at hyphens in both texts, as in some papers (fairseq's
compound_split_bleu.sh). chrF++ (Popović 2017) adds words and pairs of words to chrF's characters.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from deepnmt.errors import UserError
from deepnmt.text.casing import Casing
from deepnmt.text.languages import bleu_tokenizer, is_unspaced
from deepnmt.text.lines import read_text
from deepnmt.text.record import read_record, write_record
from deepnmt.text.token_bleu import TokenBleu
from deepnmt.text.translated_folder import RECORD, data_settings

# Longest sequences of words that they compare.
CHRFS = {"chrF": 0, "chrF++": 2}
TOKENISED, COMPOUNDS, FILE = "tokenised BLEU", "compounds split", "scores.json"
Texts = tuple[Sequence[str], Sequence[str]]
Scores = dict[str, dict[str, Any]]


def read_pair(hypothesis: Path, reference: Path) -> Texts:
    """Return hypotheses and references. Raises `UserError` if their numbers differ."""
    hypotheses, references = read_text(hypothesis), read_text(reference)
    if len(hypotheses) != len(references):
        raise UserError(f"{hypothesis} has {len(hypotheses)} lines, but {reference} has {len(references)}")
    return hypotheses, references


def tokenised_bleu(language: str) -> BLEU:
    """Return the metric that compares texts in tokens, by the words of their language."""
    # multi-bleu.perl and fairseq-score do not smooth.
    return TokenBleu(language, smooth_method="none")


def untokenised_bleu(language: str, lowercase: bool, tokenizer: str = "") -> BLEU:
    """Return the metric that compares untokenised texts; `tokenizer` replaces the language's own."""
    return BLEU(lowercase=lowercase, tokenize=tokenizer or bleu_tokenizer(language))


def lower(texts: Texts, case_language: str) -> Texts:
    """Return both texts in lower case, by the rules of a language; empty: the general rules, as in sacrebleu."""
    of_language = Casing(case_language).lower
    return [*map(of_language, texts[0])], [*map(of_language, texts[1])]


def score(metric: Any, texts: Texts) -> dict[str, Any]:
    """Return one score of a corpus, with sacrebleu's signature."""
    hypotheses, references = texts
    result = metric.corpus_score(hypotheses, [references])
    entry = {"score": round(result.score, 2), "signature": str(metric.get_signature())}
    if isinstance(metric, BLEU):
        precisions = "/".join(f"{precision:.1f}" for precision in result.precisions)
        entry["details"] = f"{precisions} (BP {result.bp:.3f}, {result.sys_len} tokens, reference {result.ref_len})"
    return entry


def split_compounds(line: str) -> str:
    """Return a line's tokens with the hyphens inside them as tokens, as fairseq and tensor2tensor do."""
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)


def score_tokens(texts: Texts, language: str, compounds: bool = False, chrf: bool = False) -> Scores:
    """Return tokenised BLEU; with `compounds`, also with words split at hyphens; with `chrf`, also chrF and chrF++."""
    metric = tokenised_bleu(language)
    scores = {TOKENISED: score(metric, texts)}
    if compounds:
        # Where characters are compared, there are no compounds to split.
        hypotheses, references = (
            text if is_unspaced(language) else [split_compounds(line) for line in text] for text in texts
        )
        scores[COMPOUNDS] = score(metric, (hypotheses, references))
    if chrf:
        scores |= {f"tokenised {name}": score(CHRF(word_order=order), texts) for name, order in CHRFS.items()}
    return scores


def score_text(
    texts: Texts, language: str, lowercase: bool, case_language: str = "", tokenizer: str = "", chrf: bool = False
) -> Scores:
    """Return BLEU, chrF and TER of untokenised text.

    Args:
        case_language: language whose rules lower-case the text; empty: the general rules, as in sacrebleu
        tokenizer: sacrebleu's tokeniser for BLEU; empty: the language's
        chrf: also return chrF++
    """
    if lowercase:
        texts = lower(texts, case_language)
    # sacrebleu's own default for TER is to ignore case.
    signs = is_unspaced(language)
    return {
        "BLEU": score(untokenised_bleu(language, lowercase, tokenizer), texts),
        **{
            name: score(CHRF(lowercase=lowercase, word_order=order), texts)
            for name, order in CHRFS.items()
            if chrf or not order
        },
        "TER": score(TER(normalized=signs, asian_support=signs), texts),
    }


def score_folder(
    folder: Path, language: str, lowercase: bool, compounds: bool = False, case_language: str = "", chrf: bool = False
) -> Scores:
    """Return all scores of a folder; scores of untokenised text only where it has such a reference."""
    raw = (folder / f"ref.{language}").exists()
    tokens = read_pair(folder / f"hyp.tok.{language}", folder / f"ref.tok.{language}")
    scores = score_tokens(tokens, language, compounds, chrf and not raw)
    if raw:
        texts = read_pair(folder / f"hyp.{language}", folder / f"ref.{language}")
        scores |= score_text(texts, language, lowercase, case_language, chrf=chrf)
    return scores


def facts(folder: Path, data: Path | None, reverse: bool) -> tuple[str, bool]:
    """Return the language of translations, and whether it is lower-cased; without `data`, by their own record.

    `reverse` translations are of the other direction. Raises `UserError` if a record is missing or faulty, or the
    translations' own says another direction.
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


def _case_language(record: Path, language: str) -> str:
    return language if read_record(record).get("language_case") else ""


def main_bleu(folder: Path) -> tuple[BLEU, Texts]:
    """Return the metric of a folder's BLEU, of tokens where there is no raw reference, and the texts it compares."""
    language, lowercase = facts(folder, None, False)
    if not (folder / f"ref.{language}").exists():
        return tokenised_bleu(language), read_pair(folder / f"hyp.tok.{language}", folder / f"ref.tok.{language}")
    texts = read_pair(folder / f"hyp.{language}", folder / f"ref.{language}")
    if lowercase:
        texts = lower(texts, _case_language(folder / RECORD, language))
    return untokenised_bleu(language, lowercase), texts


def main_score(path: Path) -> float:
    """Return the BLEU in a file of scores, of tokens where there is no other. Raises `UserError` without BLEU."""
    scores = read_record(path)
    entry = scores.get("BLEU", scores.get(TOKENISED))
    value = entry.get("score") if isinstance(entry, dict) else None
    if not isinstance(value, (int, float)):
        raise UserError(f"{path}: must have BLEU, but does not")
    return float(value)


def score_result(
    folder: Path,
    data: Path | None = None,
    reverse: bool = False,
    compounds: bool = False,
    output: Path | None = None,
    chrf: bool = False,
    comet: Callable[[Path, Path], Scores] = lambda hypothesis, reference: {},
) -> Scores:
    """Score the translations of a folder, with `compounds` also with words split at hyphens, and write the scores.

    The output is by default scores.json in the folder. For `data` see `facts`; `comet` returns further scores of the
    untokenised texts in two files. Raises `UserError` if the folder is not one of deepnmt generate, or its texts do not
    match each other.
    """
    language, lowercase = facts(folder, data, reverse)
    case_language = _case_language(data / "preprocess.json" if data else folder / RECORD, language)
    scores = score_folder(folder, language, lowercase, compounds, case_language, chrf)
    scores |= comet(folder / f"hyp.{language}", folder / f"ref.{language}")
    write_record(output or folder / FILE, scores)
    return scores


def shown(scores: Scores) -> str:
    """Return scores in two lines each; the second line is the signature."""
    return "\n".join(
        f"{name:<15} {entry['score']:6.2f}  {entry.get('details', '')}".rstrip() + f"\n{'':<24}{entry['signature']}"
        for name, entry in scores.items()
    )
