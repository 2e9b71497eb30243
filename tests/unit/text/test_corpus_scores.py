"""Translations to scores: deepnmt/text/corpus_scores.py, `deepnmt score` and score.sh."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from support.data_folders import data_folder
from support.script_runs import folder_of_translations, run_script

from deepnmt.cli import score as command
from deepnmt.errors import UserError
from deepnmt.text import corpus_scores as score


def test_tokenised_bleu_by_hand() -> None:
    # Precisions 6/7, 4/6, 2/5 and 1/4 of 1- to 4-grams; the hypothesis has 7 tokens, the reference 8.
    hypothesis, reference = "the cat sat on the mat yes", "the cat sat on a mat , yes"
    matches = [6, 3, 2, 1]
    totals = [7, 6, 5, 4]
    expected = 100 * math.exp(1 - 8 / 7) * math.prod(m / t for m, t in zip(matches, totals)) ** 0.25
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    assert score.score(metric, ([hypothesis], [reference]))["score"] == round(expected, 2)


def test_scores_of_known_text(tmp_path: Path) -> None:
    folder = folder_of_translations(
        tmp_path / "out",
        {
            "hyp.tok": ["A dog , which sleeps , is happy .", "no match"],
            "ref.tok": ["A dog , which sleeps , is happy .", "nothing here"],
            "hyp": ["A dog, which sleeps, is happy."],
            "ref": ["a dog, which sleeps, is sad."],
        },
    )
    result = run_script("score.sh", folder)
    assert result.returncode == 0, result.stderr
    scores = json.loads((folder / "scores.json").read_text())
    # 9 of 11, 8 of 9, 7 of 7 and 6 of 6 n-grams; the lengths are equal.
    assert scores["tokenised BLEU"]["score"] == round(100 * (9 / 11 * 8 / 9) ** 0.25, 2)
    # 13a gives 9 tokens; 'A' and 'happy' differ: 7/9, 5/8, 4/7 and 3/6.
    assert scores["BLEU"]["score"] == round(100 * (7 / 9 * 5 / 8 * 4 / 7 * 3 / 6) ** 0.25, 2)
    # By default TER ignores case and splits no punctuation: 1 word in 6 is wrong.
    assert scores["TER"]["score"] == round(100 / 6, 2)
    assert "|case:mixed|eff:no|tok:13a|smooth:exp|version:" in scores["BLEU"]["signature"]
    assert "|tok:none|smooth:none|" in scores["tokenised BLEU"]["signature"]
    for name, entry in scores.items():
        assert f"{name:<15} {entry['score']:6.2f}" in result.stdout
        assert entry["signature"] in result.stdout


def test_chrf_with_words_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the characters abc and abd, and of the words: the mean of the orders' shares is precision and recall."""
    characters, words = [2 / 3, 1 / 2, 0 / 1], [1 / 2, 0 / 1]
    expected = {"chrF": 100 * sum(characters) / 3, "chrF++": 100 * sum(characters + words) / 5}
    (tmp_path / "hyp.en").write_text("ab c\n")
    (tmp_path / "ref.en").write_text("ab d\n")
    output = tmp_path / "scores.json"
    for more, prefix in (([], ""), (["--pretokenized"], "tokenised ")):
        command.main([str(tmp_path / "hyp.en"), str(tmp_path / "ref.en"), "--chrf", f"--output={output}", *more])
        scores = json.loads(output.read_text())
        shown = capsys.readouterr().out
        for name, value in expected.items():
            assert scores[f"{prefix}{name}"]["score"] == round(value, 2)
            assert f"{prefix}{name} " in shown
        assert "|nw:2|" in scores[f"{prefix}chrF++"]["signature"]
    folder = folder_of_translations(
        tmp_path / "out", {"hyp.tok": ["ab c"], "ref.tok": ["ab d"], "hyp": ["ab c"], "ref": ["ab d"]}
    )
    command.main([str(folder), "--chrf", "--split-compounds", f"--output={output}"])
    assert list(json.loads(output.read_text())) == [
        "tokenised BLEU", "compounds split", "BLEU", "chrF", "chrF++", "TER"
    ]  # fmt: skip
    assert not (folder / "scores.json").exists()
    (folder / "ref.en").unlink()
    command.main([str(folder), "--chrf"])
    assert list(json.loads((folder / "scores.json").read_text())) == [
        "tokenised BLEU", "tokenised chrF", "tokenised chrF++"
    ]  # fmt: skip


def test_lower_cased_data_is_scored_without_case(tmp_path: Path) -> None:
    tokenised, texts = ["a dog sleeps here ."], {"hyp": ["a dog sleeps here."], "ref": ["A Dog sleeps here."]}
    folder = folder_of_translations(tmp_path / "out", {"hyp.tok": tokenised, "ref.tok": tokenised, **texts})
    scores = score.score_folder(folder, "en", True)
    assert [scores[name]["score"] for name in ("BLEU", "chrF", "TER")] == [100, 100, 0]
    assert all("|case:lc|" in scores[name]["signature"] for name in ("BLEU", "chrF", "TER"))
    mixed = score.score_folder(folder, "en", False)
    assert mixed["BLEU"]["score"] < 100
    assert mixed["chrF"]["score"] < 100


def test_without_raw_reference_only_tokenised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of_translations(
        tmp_path / "out", {"hyp.tok": ["a b c d"], "ref.tok": ["a b c d"], "hyp": ["a b c d"]}
    )
    command.main([str(folder)])
    assert "no detokenised scores" in capsys.readouterr().out
    assert list(json.loads((folder / "scores.json").read_text())) == ["tokenised BLEU"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"hyp.tok": ["a", "b"], "ref.tok": ["a"]}, "hyp.tok.en has 2 lines, but {}/ref.tok.en has 1"),
        (
            {"hyp.tok": ["a"], "ref.tok": ["a"], "hyp": ["a"], "ref": ["a", "b"]},
            "hyp.en has 1 lines, but {}/ref.en has 2",
        ),
        ({"hyp.tok": ["a"], "ref.tok": []}, "ref.tok.en is empty"),
        ({"ref.tok": ["a"]}, "No such file or directory: '{}/hyp.tok.en'"),
    ],
)
def test_bad_translations(tmp_path: Path, texts: dict[str, list[str]], message: str) -> None:
    folder = folder_of_translations(tmp_path / "out", texts)
    (folder / "scores.json").write_text("earlier")
    with pytest.raises((UserError, OSError), match=re.escape(message.format(folder))):
        command.main([str(folder)])
    assert (folder / "scores.json").read_text() == "earlier"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ('{"lowercase": true}', "generate.json: must have the key 'target_lang', but does not"),
        ('{"target_lang": "en"}', "generate.json: must have the key 'lowercase', but does not"),
        ('{"target_lang": "en", "lowercase": 1}', "generate.json: 'lowercase' must be true or false, but is 1"),
    ],
)
def test_record_without_a_key(tmp_path: Path, record: str, message: str) -> None:
    folder = folder_of_translations(tmp_path / "out", {"hyp": ["a"]})
    (folder / "generate.json").write_text(record)
    with pytest.raises(UserError, match=message):
        command.main([str(folder)])


def test_lines_end_at_line_feeds_alone(tmp_path: Path) -> None:
    lines = ["a\u2028b", "c\x0cd\x85e", "f\rg"]
    folder = folder_of_translations(tmp_path / "out", {"hyp.tok": lines, "ref.tok": ["a", "c", "f"]})
    assert score.read_pair(folder / "hyp.tok.en", folder / "ref.tok.en") == (lines, ["a", "c", "f"])


def test_folder_not_made_by_generate(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere: no such folder"):
        command.main([str(tmp_path / "nowhere")])
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match=r"generate\.json: no such file"):
        command.main([str(tmp_path / "out")])


def test_scores_of_the_other_direction(tmp_path: Path) -> None:
    data, folder = data_folder(tmp_path / "data"), tmp_path / "out"
    folder.mkdir()
    assert score.facts(folder, data, True) == ("de", True)
    assert score.facts(folder, data, False) == ("en", True)
    (folder / "generate.json").write_text('{"target_lang": "de", "lowercase": false, "reverse": true}')
    assert score.facts(folder, None, False) == score.facts(folder, None, True) == ("de", False)
    with pytest.raises(UserError, match=r"--reverse: must be given for .*out, which .*says is in the other direction"):
        score.facts(folder, data, False)
    (folder / "generate.json").write_text('{"target_lang": "en", "lowercase": false}')
    with pytest.raises(UserError, match=r"--reverse: must not be given for .*out, which .* in the direction of DATA"):
        score.facts(folder, None, True)


@pytest.mark.parametrize(("language", "kind"), [("zh", "zh"), ("zh-TW", "zh"), ("ja", "char"), ("my_MM", "char")])
def test_text_without_spaces_is_compared_sign_by_sign(tmp_path: Path, language: str, kind: str) -> None:
    # One sign of five differs, so that of 1- to 4-grams 4, 3, 2 and 1 of 5, 4, 3 and 2 are right.
    texts = {"hyp.tok": ["学习 好 的"], "ref.tok": ["学习 好 人"], "hyp": ["我学习好的"], "ref": ["我学习好人"]}
    folder = folder_of_translations(tmp_path / "out", texts)
    for path in list(folder.glob("*.en")):
        path.rename(path.with_suffix(f".{language}"))
    scores = score.score_folder(folder, language, False)
    assert scores["BLEU"]["score"] == round(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25, 2)
    assert f"|tok:{kind}|" in scores["BLEU"]["signature"]
    assert scores["TER"]["score"] == 20


def test_lower_case_of_a_language_is_that_of_the_references(tmp_path: Path) -> None:
    for name, line in {"hyp": "ışık var ve iki kişi geldi", "ref": "Işık var ve İki kişi geldi"}.items():
        (tmp_path / f"{name}.tr").write_text(f"{line}\n", "utf-8")
        (tmp_path / f"{name}.tok.tr").write_text("a b c d\n", "utf-8")
    assert score.score_folder(tmp_path, "tr", True, case_language="tr")["BLEU"]["score"] == 100
    assert score.score_folder(tmp_path, "tr", True)["BLEU"]["score"] < 50
