"""TOML, the second front: the same keys, as nested tables; a list stands for the elements 1, 2, 3."""

from __future__ import annotations

from collections.abc import Iterator

from .errors import ConfigError
from .setting import Path, Setting


def parse(text: str, name: str) -> Iterator[Setting]:
    """What a file called `name` says. TOML's parser tells no lines but for its own errors. Raises ConfigError."""
    import tomllib  # only here: most have none

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: {error}") from None
    yield from _flat((), table, name)


def _flat(path: Path, value: object, name: str) -> Iterator[Setting]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat((*path, key), inner, name)
    elif isinstance(value, list):
        for number, inner in enumerate(value, 1):
            yield from _flat((*path, str(number)), inner, name)
    elif isinstance(value, bool):
        yield Setting(path, "true" if value else "false", name)
    elif isinstance(value, str | int | float):
        yield Setting(path, str(value), name)
    else:
        raise Setting(path, "", name).wrong("a date is no value here")
