"""Redaction of credentials in what is logged or shown: fields, URIs, headers in tracebacks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

HIDDEN = "[redacted]"
# A field, a key of a table or a parameter of a URI is secret when its name holds one of these.
_SECRET = re.compile(r"passw|passphrase|secret|token|credential|authorization|cookie|private_?key", re.IGNORECASE)
_WORDS = re.compile(r"(\s+)")
_PARAMETERS = re.compile(r"([?&][\w.-]{0,40}(?:passw|passphrase|secret|token)[\w.-]{0,40}=)[^&\s#'\"]+", re.IGNORECASE)
_HEADERS = re.compile(r"(authorization['\"]?\s{0,4}[:=]\s{0,4}['\"]?\w{1,20}\s{1,4})[^\s'\"]+", re.IGNORECASE)
DEPTH = 8  # of tables in tables; what lies deeper is not shown


def redacted(name: str, value: object, depth: int = DEPTH) -> object:
    """The value of this name as the log may have it."""
    if value and value is not True and _is_secret(name):
        return HIDDEN
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bytes | bytearray):
        return redacted(name, value.decode("utf-8", "backslashreplace"))
    if value is None or isinstance(value, bool | int | float):
        return value
    if not depth:
        return HIDDEN
    if isinstance(value, Mapping):
        return {str(key): redacted(str(key), inner, depth - 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [redacted(name, inner, depth - 1) for inner in value]
    return redacted(name, str(value))


@lru_cache(1000)
def _is_secret(name: str) -> bool:
    return _SECRET.search(name) is not None


def clean(text: str) -> str:
    """The text without the passwords of the URIs and headers in it."""
    if "://" in text:
        text = "".join([_without_password(word) for word in _WORDS.split(text)])
    if "?" in text or "&" in text:
        text = _PARAMETERS.sub(rf"\1{HIDDEN}", text)
    return _HEADERS.sub(rf"\1{HIDDEN}", text) if "uthorization" in text or "UTHORIZATION" in text else text


def _without_password(word: str) -> str:
    """Rather too much is hidden than too little: a password that nobody encoded may hold any character but a space."""
    start = word.find("://")
    colon, at = word.find(":", start + 3), word.rfind("@")
    if start < 0 or not start < colon < at:
        return word
    return f"{word[: colon + 1]}{HIDDEN}{word[at:]}"
