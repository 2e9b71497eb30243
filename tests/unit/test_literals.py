"""Literals are read as `eval` reads them, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepnmt.errors import UserError
from deepnmt.literals import evaluate_literal, literal_fault

LITERALS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(LITERALS)
def test_literals_are_read_back(value: object) -> None:
    assert evaluate_literal(f"  {value!r}\n") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[(512, 10, 5)] + [(512, 3, 2)] * 2", [(512, 10, 5), (512, 3, 2), (512, 3, 2)]),
        ("2 * (1, 2) + (3,)", (1, 2, 1, 2, 3)),
        ("0.5 * 3 + 1", 2.5),
        ("-1e-3", -0.001),
        ("True", True),
    ],
)
def test_sums_and_multiples(text: str, value: object) -> None:
    assert evaluate_literal(text, {}, {}) == value
    assert literal_fault(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getcwd()",
        "().__class__.__base__.__subclasses__()",
        "[x for x in (1, 2)]",
        "lambda: 1",
        "f'{1}'",
        "print",
        "(0.9, open('/dev/null'))",
        "{'a': exit}",
        "1 if True else 2",
        "9**9**9",
        "[0] * 10**12",
        "[0] * 100000000",
        "((1,) * 9999) * 9999",
        "9 * 9223372036854775809",
        "(" * 5000,
        "1 +",
        "",
        "\0",
        "'a' * 100000000",
        "-" * 9000 + "1",
        "0" + "1" * 10001,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(
        UserError, match=r"^a value in a configuration must be a literal such as 0\.1 or \(0\.9, 0\.98\), but is "
    ):
        evaluate_literal(text)


def test_no_text_is_a_type_error_as_with_eval() -> None:
    with pytest.raises(TypeError, match="must be a text, but is a bool"):
        evaluate_literal(True)
