"""Settings of a search compared on the validation set: the available settings, all their scores, and the best.

fairseq's search applies a length penalty to finished hypotheses alone. So one search with --nbest for each average and
beam has the translations of every penalty.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.generation.search_inputs import contents
from deepnmt.jobs.in_place import InPlace
from deepnmt.limits import BEAM, LENPEN
from deepnmt.text.columns import in_columns, write_rows
from deepnmt.text.corpus_scores import TOKENISED, tokenised_bleu
from deepnmt.text.lines import read_text
from deepnmt.text.nbest import FILE, LENGTH, MODEL, Translation, read_nbest
from deepnmt.text.pipeline import restored
from deepnmt.text.record import read_record, size_and_time, write_record
from deepnmt.text.subwords import join_bpe
from deepnmt.text.translated_folder import RECORD as GENERATED
from deepnmt.text.translated_folder import data_settings

RECORD, TABLE, BEST = "sweep.json", "sweep.tsv", "best.json"
DEFAULT = (1, 3, 5, 10)
# Beginnings of options that are set here, or that n-best lists know nothing of.
REFUSED = ("--nbest", "--subset", "--gen-subset", "--unnormalized", "--length-penalty", "--coverage", "--beam-stop",
           "--prune-gap")  # fmt: skip


def penalties(text: str) -> list[float]:
    """Return the numbers of --lenpen. Raises `UserError` if one is too large, or is no number."""
    values = sorted({console.as_number(word) for word in text.split(",")})
    if not all(-LENPEN <= value <= LENPEN for value in values):
        raise UserError(f"--lenpen must be numbers from {-LENPEN} to {LENPEN}, such as 0.6,1, but is '{text}'")
    return values


def check_options(options: Sequence[str]) -> None:
    """Raise `UserError` for an option of the search by which settings cannot be compared."""
    if refused := [word for word in options if word.startswith(REFUSED)]:
        raise UserError(
            f"{refused[0]} cannot be used here: settings are compared by the n-best lists of fairseq's own search, on "
            "the validation set"
        )


def job_of(out: Path, save: Path, data: Path, texts: Sequence[str], options: list[str]) -> InPlace:
    """Return the job of a sweep, whose record also has the settings: last checkpoints, beams and length penalties.

    The texts are the values of --last, --beam and --lenpen; an empty --last takes the default. The options are further
    options of fairseq-generate.

    Raises:
        UserError: settings or files do not match
    """
    from deepnmt.checkpoints.averaging import find_checkpoints

    def numbers(option: str, text: str, most: int) -> list[int]:
        return sorted({*console.wholes(option, 1, most)(text)})

    last, beam, lenpen = texts
    checkpoints = find_checkpoints(save)
    if not checkpoints:
        raise UserError(f"{save}: contains no checkpoints")
    there = len(checkpoints)
    lasts = numbers("--last", last, there) if last else [number for number in DEFAULT if number <= there]
    searches = {"last": lasts, "beam": numbers("--beam", beam, BEAM), "lenpen": penalties(lenpen)}
    files = [f"{path.name} of update {number}, {size_and_time(path)}" for number, path in checkpoints.items()]
    settings = {
        "checkpoints": [os.path.realpath(save), *files],
        "data": os.path.realpath(data),
        "options": options,
        **contents(data, options),
    }
    return InPlace(console.program("sweep"), out, RECORD, settings, told=searches)


def chosen(translations: Iterable[Translation], lenpen: float, sentences: int) -> list[str]:
    """Return the tokens of each sentence's best translation by fairseq's score, log P / length ** lenpen."""
    best: dict[int, tuple[float, str]] = {}
    for each in translations:
        score = each.features[MODEL] / each.features[LENGTH] ** lenpen
        if each.sentence not in best or score > best[each.sentence][0]:
            best[each.sentence] = score, each.subwords
    return [join_bpe(best[number][1]) if number in best else "" for number in range(sentences)]


def rows(output: Path) -> list[dict[str, Any]]:
    """Return the settings with their scores, the best first."""
    record = read_record(output / RECORD, data=str, last=list, beam=list, lenpen=list)
    found = []
    searches = [(last, beam) for last in record["last"] for beam in record["beam"]]
    with console.progress(len(searches) * len(record["lenpen"]), "scoring", " settings") as bar:
        for last, beam in searches:
            folder = output / f"last{last}.beam{beam}"
            (reference,) = folder.glob("ref.tok.*")
            references, translations = read_text(reference), read_nbest(folder / FILE)
            settings = data_settings(Path(record["data"]), bool(read_record(folder / GENERATED).get("reverse")))
            bleu = tokenised_bleu(settings.target_lang)
            sources = read_text(Path(record["data"]) / "text" / f"valid.tok.{settings.source_lang}")
            for lenpen in record["lenpen"]:
                pairs = zip(chosen(translations, lenpen, len(references)), sources)
                texts = [restored(tokens, settings, source) for tokens, source in pairs]
                result = bleu.corpus_score(texts, [references])
                scores = {TOKENISED: f"{result.score:.2f}", "length ratio": f"{result.sys_len / result.ref_len:.3f}"}
                setting = {"last": last, "beam": beam, "lenpen": f"{lenpen:g}", **scores}
                found.append((-result.score, last, beam, lenpen, setting))
                bar.update()
    # Of equal scores, the cheaper one.
    return [setting for *_, setting in sorted(found, key=lambda row: row[:4])]


def table(output: Path) -> dict[str, Any]:
    """Write OUT/sweep.tsv, show it, and return the best setting."""
    settings = rows(output)
    lines = [list(settings[0]), *([str(value) for value in row.values()] for row in settings)]
    write_rows(output / TABLE, lines)
    print("\n".join(in_columns(lines, left=0)), file=sys.stderr)
    return settings[0]


def best(output: Path, folder: Path) -> None:
    """Write OUT/best.json from the folder of the best setting's own search."""
    setting = read_tsv(output / TABLE)
    score = read_record(folder / "scores.json")[TOKENISED]["score"]
    if abs(score - float(setting[TOKENISED])) > 0.05:
        print(
            f"warning: the search itself has {score} {TOKENISED}, but its n-best list gave {setting[TOKENISED]}",
            file=sys.stderr,
        )
    checkpoint = f"last{setting['last']}.pt"
    kept = {
        "checkpoint": checkpoint,
        "beam": int(setting["beam"]),
        "lenpen": float(setting["lenpen"]),
        TOKENISED: score,
    }
    write_record(output / BEST, kept)
    print(
        f"{output} is ready: the best of {output / TABLE} is {output / checkpoint} with --beam {setting['beam']}",
        end=" ",
    )
    print(f"--lenpen {setting['lenpen']}, {score} {TOKENISED}; its translations are in {folder}")


def read_tsv(path: Path) -> dict[str, str]:
    """Return the first row of a table, by the names of its columns."""
    names, first = (line.split("\t") for line in read_text(path)[:2])
    return dict(zip(names, first))
