"""Steps that give each sign one code, against Unicode's own tables."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnmt.errors import UserError
from deepnmt.text.normalisation import STEPS, normaliser, parse_steps

TEXTS = st.text(st.one_of(st.characters(), st.sampled_from("ＡＺ０９％，　﹪²ﬁ體發裡。、《》")))


def test_width_is_unicodes_own_for_these_ranges_and_nothing_else_changes() -> None:
    width = normaliser(["width"], "en")
    changed = 0
    for code in [*range(0x20, 0xD800), *range(0xE000, 0x10000)]:
        sign = chr(code)
        if 0xFF01 <= code <= 0xFF5E or code == 0x3000 or 0xFE50 <= code <= 0xFE6B:
            decomposition = unicodedata.decomposition(sign)
            expected = chr(int(decomposition.split()[1], 16)) if decomposition else sign
            assert width(sign) == expected, hex(code)
            assert not decomposition or decomposition.split()[0] in ("<wide>", "<small>")
            changed += expected != sign
        else:
            assert width(sign) == sign, hex(code)
    # 94 wide signs, the wide space, 26 small forms, of the 28 places.
    assert changed == 94 + 1 + 26
    assert width("５％﹪ＡＢ　２²") == "5%%AB 2²"


@settings(deadline=None)
@given(TEXTS)
def test_steps_do_not_change_what_they_have_made(text: str) -> None:
    for steps in (["width"], ["nfkc"], ["simplified"], ["width", "nfkc", "simplified"]):
        normalise = normaliser(steps, "zh")
        assert normalise(normalise(text)) == normalise(text)


@given(st.text(st.characters(max_codepoint=0x7E)))
def test_ascii_stays_as_it_is(text: str) -> None:
    assert normaliser(["width", "nfkc", "simplified"], "zh-TW")(text) == text


def test_chinese() -> None:
    simplify = normaliser(["simplified"], "zh_TW")
    assert simplify("這個漢字轉換發財體面abc。") == "这个汉字转换发财体面abc。"
    assert normaliser(["simplified"], "en")("漢字") == "漢字"


def test_punctuation_and_the_order_of_steps() -> None:
    assert normaliser(["punctuation"], "en")("“a”， 《b》！ …") == '"a," "b"! ...'
    assert parse_steps("simplified,width") == ("width", "simplified")
    assert parse_steps(",".join(STEPS[::-1])) == STEPS
    assert parse_steps("") == ()
    with pytest.raises(UserError, match=r"--normalise must have steps of width, nfkc, .*, but has 'wide'"):
        parse_steps("width,wide")
