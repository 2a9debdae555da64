"""Redaction of credentials in logged or shown values: fields, URIs, headers in tracebacks."""

import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import unquote_plus

HIDDEN = "[redacted]"
# A field, a key of a table or a parameter of a URI is secret if its name contains one of these.
_SECRET = re.compile(r"passw|passphrase|secret|token|credential|authorization|cookie|private_?key", re.IGNORECASE)
_WORDS = re.compile(r"(\s+)")
_PARAMETER = re.compile(r"([?&])([^=&?\s#'\"]{1,240})=([^&\s#'\"]+)")  # of a URI; its name may be percent-encoded
_URI_PARAMETER = re.compile(r"([?&])([^=&?]{1,240})=([^&]+)")  # in a text that is one URI
_HEADERS = re.compile(r"(authorization['\"]?\s{0,4}[:=]\s{0,4}['\"]?\w{1,20}\s{1,4})[^\s'\"]+", re.IGNORECASE)
DEPTH = 8  # of nested tables; deeper ones are hidden


def redacted(name: str, value: object, depth: int = DEPTH) -> object:
    """Return the value of a field without credentials."""
    if value and value is not True and _is_secret(name):
        return HIDDEN
    if isinstance(value, str):
        return clean(_clean_uri(value) if "uri" in name.lower() else value)
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
    """Return a text without the passwords of URIs and headers in it."""
    if "://" in text:
        text = "".join([_without_password(word) for word in _WORDS.split(text)])
    if "?" in text or "&" in text:
        text = _PARAMETER.sub(_without_secret, text)
    return _HEADERS.sub(rf"\1{HIDDEN}", text) if "uthorization" in text or "UTHORIZATION" in text else text


def _clean_uri(uri: str) -> str:
    """Return a URI without passwords; spaces and quotes are part of it. It may be a mistyped one, without `://`."""
    if "://" not in uri:
        colon, at = uri.find(":"), uri.rfind("@")
        uri = f"{uri[: colon + 1]}{HIDDEN}{uri[at:]}" if 0 <= colon < at else uri
    return _URI_PARAMETER.sub(_without_secret, _without_password(uri))


def _without_secret(parameter: re.Match[str]) -> str:
    mark, name, _ = parameter.groups()
    return f"{mark}{name}={HIDDEN}" if _is_secret(unquote_plus(name)) else parameter[0]


def _without_password(word: str) -> str:
    """Hide the password of a URI, up to the last `@`: an unencoded one may have any character except a space."""
    start = word.find("://")
    colon, at = word.find(":", start + 3), word.rfind("@")
    if start < 0 or not start < colon < at:
        return word
    return f"{word[: colon + 1]}{HIDDEN}{word[at:]}"
