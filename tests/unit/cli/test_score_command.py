"""`deepnmt score` of two texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deepnmt.cli import score
from deepnmt.errors import UserError


def write(folder: Path, **texts: str) -> list[str]:
    for name, text in texts.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return [str(folder / name.replace("_", ".")) for name in texts]


def run(folder: Path, *words: str) -> dict[str, float]:
    """The scores of a command, by their names."""
    score.main([*words, "--output", str(folder / "scores.json")])
    found = json.loads((folder / "scores.json").read_text("utf-8"))
    return {name: entry["score"] for name, entry in found.items()}


def test_two_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = write(tmp_path, hyp_en="A dog, which sleeps, is happy.\n", ref_en="a dog, which sleeps, is sad.\n")
    # 13a gives 9 tokens; 'A' and 'happy' differ: 7/9, 5/8, 4/7 and 3/6. By TER, which ignores case, 1 word in 6.
    scores = run(tmp_path, *texts)
    assert scores["BLEU"] == round(100 * (7 / 9 * 5 / 8 * 4 / 7 * 3 / 6) ** 0.25, 2)
    assert scores["TER"] == round(100 / 6, 2)
    assert list(scores) == ["BLEU", "chrF", "TER"]
    printed = capsys.readouterr().out
    assert f"{'BLEU':<15} {scores['BLEU']:6.2f}  " in printed
    assert "|case:mixed|eff:no|tok:13a|" in printed
    # 'happy' alone: 8/9, 6/8, 5/7 and 4/6.
    assert run(tmp_path, *texts, "--lowercase")["BLEU"] == round(100 * (8 / 9 * 6 / 8 * 5 / 7 * 4 / 6) ** 0.25, 2)


def test_the_tokenisation_is_that_of_the_language_or_the_one_that_is_given(tmp_path: Path) -> None:
    # One character of five differs, so that of 1- to 4-grams 4, 3, 2 and 1 of 5, 4, 3 and 2 are right.
    by_characters = round(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25, 2)
    chinese = write(tmp_path, hyp_zh="我学习好的\n", ref_zh="我学习好人\n")
    plain = write(tmp_path, hyp_txt="我学习好的\n", ref_txt="我学习好人\n")
    assert run(tmp_path, *chinese)["BLEU"] == run(tmp_path, *plain, "--language", "zh")["BLEU"] == by_characters
    assert run(tmp_path, *plain, "--tokenizer", "char")["BLEU"] == by_characters
    assert run(tmp_path, *plain)["BLEU"] < by_characters
    turkish = write(tmp_path, hyp_tr="ışık var ve iki kişi geldi\n", ref_tr="Işık var ve İki kişi geldi\n")
    assert run(tmp_path, *turkish, "--lowercase")["BLEU"] == 100


def test_texts_in_tokens(tmp_path: Path) -> None:
    texts = write(tmp_path, hyp_en="A well-read dog , is it\n", ref_en="a well-known dog , is it\n")
    # Of 6, 5, 4 and 3 n-grams, those from 'dog' on are right; without case, nothing more but 'a'.
    assert run(tmp_path, *texts, "--pretokenized") == {
        "tokenised BLEU": round(100 * (4 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25, 2)
    }
    # Eight tokens with the compounds split; two of them differ, the first and the fourth.
    scores = run(tmp_path, *texts, "--pretokenized", "--split-compounds")
    assert scores["compounds split"] == round(100 * (6 / 8 * 4 / 7 * 2 / 6 * 1 / 5) ** 0.25, 2)
    scores = run(tmp_path, *texts, "--pretokenized", "--lowercase")
    assert scores["tokenised BLEU"] == round(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25, 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{0}/hyp.en"], "^{0}/hyp.en is a text, which needs a reference, REF$"),
        (["{0}/no.en", "{0}/ref.en"], "^{0}/no.en: not found$"),
        (["{0}/hyp.en", "{0}/long.en"], "^{0}/hyp.en has 1 lines, but {0}/long.en has 2$"),
        (["{0}/hyp.en", "{0}/empty.en"], "^{0}/empty.en is empty$"),
        (["{0}/hyp.en", "{0}/ref.en", "--reverse"], "^--reverse needs a folder$"),
        (["{0}", "--language", "en", "--lowercase"], "^--language needs texts\n--lowercase needs texts$"),
        (["{0}/hyp.en", "{0}/ref.en", "--tokenizer", "spm"], "argument --tokenizer: invalid choice: 'spm'"),
        (["{0}/hyp.en", "{0}/ref.en", "--tokenizer", "zh", "--pretokenized"], "^--tokenizer cannot be combined with"),
        (["{0}/hyp.en", "{0}/ref.en", "--split-compounds"], "^--split-compounds needs --pretokenized, since it splits"),
        ([], "the following arguments are required: OUT_DIR|HYP"),
    ],
)
def test_what_does_not_fit_is_refused(words: list[str], message: str, tmp_path: Path) -> None:
    write(tmp_path, hyp_en="a\n", ref_en="b\n", long_en="a\nb\n", empty_en="")
    with pytest.raises(UserError, match=message.format(tmp_path)):
        score.main([word.format(tmp_path) for word in words])
