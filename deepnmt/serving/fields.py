"""The fields of a request's body, JSON or a form, checked. All of them are data: none is a path, a name or markup."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
MOST_FIELDS = 1_000
AUTO = "auto"


class RefusedError(Exception):
    """A request that cannot be answered: the status, and the reason in a line."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass(frozen=True)
class Fields:
    """The checked fields of /translate and /detect.

    Attributes:
        texts: to translate
        several: the client sent a list, and expects one
        source: language; `auto`: to be detected
        target: language
        alternatives: further translations
        details: sentences, scores and marks are wanted
        key: the client's API key
    """

    texts: list[str]
    several: bool
    source: str
    target: str
    alternatives: int
    details: bool
    key: str

    @classmethod
    def read(cls, body: bytes, content_type: str) -> Fields:
        """Return the fields of a body. Raises `RefusedError` if one is missing or faulty."""
        given = _given(body, content_type)
        texts = given.get("q")
        if texts is None:
            raise RefusedError(400, "'q', the text to translate, is missing")
        if not isinstance(texts, (str, list)) or not all(isinstance(text, str) for text in texts):
            raise RefusedError(400, "'q' must be a text or a list of texts")
        if (kind := _text(given, "format", "text")) != "text":
            raise RefusedError(400, f"'format' must be text, but is {_short(kind)}")
        fields = cls(
            texts if isinstance(texts, list) else [texts],
            isinstance(texts, list),
            _text(given, "source", AUTO),
            _text(given, "target", ""),
            _number(given, "alternatives"),
            _flag(given, "details"),
            _text(given, "api_key", ""),
        )
        for text in (*fields.texts, fields.source, fields.target):
            # JSON can hold halves of characters, which no encoding has.
            if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
                raise RefusedError(400, "the request must be Unicode, but has half of a surrogate pair")
        return fields


def _given(body: bytes, content_type: str) -> Mapping[str, Any]:
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in (JSON, FORM):
        raise RefusedError(415, f"'Content-Type' must be {JSON} or {FORM}")
    try:
        if kind == JSON:
            given = json.loads(body.decode("utf-8"))
        else:
            pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
            given = dict(pairs)
            if len(texts := [text for name, text in pairs if name == "q"]) > 1:
                given["q"] = texts
    except UnicodeDecodeError:
        raise RefusedError(400, "the request must be UTF-8") from None
    except (ValueError, RecursionError):
        raise RefusedError(400, f"the request must be {kind}, but is malformed or too complex") from None
    if not isinstance(given, dict):
        raise RefusedError(400, "the request must be a JSON object")
    return given


def _text(given: Mapping[str, Any], name: str, default: str) -> str:
    value = given.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise RefusedError(400, f"'{name}' must be a text")
    return value


def _number(given: Mapping[str, Any], name: str) -> int:
    value = given.get(name)
    if value is None:
        return 0
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 5:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 10_000:
        raise RefusedError(400, f"'{name}' must be a whole number")
    return value


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name)
    if isinstance(value, (list, dict)) or value not in (None, True, False, "true", "false", "1", "0"):
        raise RefusedError(400, f"'{name}' must be true or false")
    return value in (True, "true", "1")


def _short(text: str) -> str:
    """Return the beginning of a client's text, for a message to this client, in ASCII."""
    return ascii(text[:20])
