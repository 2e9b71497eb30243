"""The description of a server's interface, for /openapi.json (OpenAPI 3.1)."""

from __future__ import annotations

from typing import Any

import deepnmt
from deepnmt.serving.fields import FORM, JSON

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"oneOf": [TEXT, {"type": "array", "items": TEXT}]}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 100}
DETECTED: Schema = {"type": "object", "properties": {"language": TEXT, "confidence": SHARE}}
KEY: Schema = {"type": "string", "description": "API key, if the server needs one"}
SENTENCE: Schema = {
    "type": "object",
    "properties": {
        "source": TEXT,
        "unknown": {"type": "array", "items": TEXT, "description": "words that the model does not know"},
        "translations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": TEXT,
                    "score": {"type": "number", "description": "log-probability, divided by the length penalty"},
                    "copied": {"type": "array", "items": TEXT, "description": "words that stand in the source too"},
                },
            },
        },
    },
}
REQUEST: Schema = {
    "type": "object",
    "required": ["q", "target"],
    "properties": {
        "q": TEXTS,
        "source": {"type": "string", "default": "auto", "description": "language, or auto"},
        "target": TEXT,
        "format": {"type": "string", "enum": ["text"], "default": "text"},
        "alternatives": {"type": "integer", "minimum": 0, "default": 0, "description": "fewer than the beam"},
        "details": {"type": "boolean", "default": False, "description": "give sentences, scores and marks"},
        "api_key": KEY,
    },
}
TRANSLATED: Schema = {
    "type": "object",
    "description": "of a list of texts, each field is a list",
    "required": ["translatedText"],
    "properties": {
        "translatedText": TEXTS,
        "alternatives": {"type": "array"},
        "detectedLanguage": DETECTED,
        "sentences": {"type": "array", "items": SENTENCE},
    },
}
LANGUAGES: Schema = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"code": TEXT, "name": TEXT, "targets": {"type": "array", "items": TEXT}},
    },
}
FAULTS = {
    "400": "a field is missing or faulty, or a sentence is too long for the model",
    "403": "the API key is missing or wrong, or the request is of a page from elsewhere",
    "408": "the body did not arrive in time",
    "413": "the body is too large, or has too many sentences",
    "415": "the body is neither JSON nor a form",
    "500": "an internal fault",
    "503": "too many sentences wait; Retry-After has the seconds",
    "504": "no translation in time",
}


def _posted(summary: str, body: Schema, answer: Schema) -> Schema:
    fault = {"type": "object", "required": ["error"], "properties": {"error": TEXT}}
    return {
        "post": {
            "summary": summary,
            "requestBody": {"required": True, "content": {kind: {"schema": body} for kind in (JSON, FORM)}},
            "responses": {
                "200": {"description": "the answer", "content": {JSON: {"schema": answer}}},
                **{
                    status: {"description": text, "content": {JSON: {"schema": fault}}}
                    for status, text in FAULTS.items()
                },
            },
        }
    }


def _read(summary: str, kind: str, answer: Schema) -> Schema:
    return {
        "get": {
            "summary": summary,
            "responses": {"200": {"description": "the answer", "content": {kind: {"schema": answer}}}},
        }
    }


DESCRIPTION: Schema = {
    "openapi": "3.1.0",
    "info": {"title": "deepnmt", "version": deepnmt.__version__, "license": {"name": "MIT", "identifier": "MIT"}},
    "paths": {
        "/translate": _posted("Translate a text or a list of texts", REQUEST, TRANSLATED),
        "/detect": _posted(
            "Detect the language of a text, among the languages that can be translated",
            {"type": "object", "required": ["q"], "properties": {"q": TEXT, "api_key": KEY}},
            {"type": "array", "items": DETECTED},
        ),
        "/languages": _read("List the languages that can be translated", JSON, LANGUAGES),
        "/settings": _read(
            "Tell the choices of the page",
            JSON,
            {"type": "object", "properties": {"keyRequired": {"type": "boolean"}, "beams": {"type": "object"}}},
        ),
        "/health": _read(
            "Tell that the server answers", JSON, {"type": "object", "properties": {"status": {"const": "ok"}}}
        ),
        "/metrics": _read("Give counters in Prometheus' format", "text/plain", TEXT),
    },
}
