"""The printer of a configuration in the format of rabbitmq.conf: every key with its value, readable again."""

from collections.abc import Iterator
from typing import Any

from .config import Config
from .keys import ANY, KEYS, LIST, MAP, NAMES, NONE, ONE, Key
from .setting import dotted

DEFAULTS = Config()


def text_of(config: Config) -> str:
    """Return the configuration as text. Secrets and unset keys are in comments."""
    lines: list[str] = []
    seen: set[str] = set()
    for key in KEYS:
        if key.field and (key.field not in seen or key.shape == NONE):
            lines += lines_of(key, config)
        seen.add(key.field)
    return "".join([line + "\n" for line in lines])


def lines_of(key: Key, config: Config) -> list[str]:
    """Return the lines of one key."""
    value = value_of(key, config)
    name = dotted(key.path)
    if key.shape == NONE:
        return [] if value else [f"{name} = none"]
    if key.secret:
        return [f"# {name} is not shown"] if value else []
    if key.shape == ONE:
        text = key.kind.write(value)
        unset = not text or value == value_of(key, DEFAULTS) == ""
        return [f"# {name} is not set" if unset else f"{name} = {text}"]
    return [f"{name.replace(ANY, element, 1)} = {text}" for element, text in _elements(key, value)]


def changes(before: Config, after: Config) -> dict[str, str]:
    """Return the keys whose values differ, each as `NAME BEFORE -> AFTER`, without secrets."""
    found: dict[str, str] = {}
    for key in KEYS:
        if key.field and key.shape != NONE and value_of(key, before) != value_of(key, after):
            name = dotted(key.path).partition(f".{ANY}")[0]
            old, new = (", ".join(text for _, text in _elements(key, value_of(key, one))) for one in (before, after))
            found.setdefault(key.field, name if key.secret else f"{name} {old or 'none'} -> {new or 'none'}")
    return {text.partition(" ")[0]: text for text in found.values()}


def value_of(key: Key, config: Config) -> Any:
    """Return the value of a key's field."""
    value: Any = config
    for part in key.field.split("."):
        value = getattr(value, part)
    return value


def _elements(key: Key, value: Any) -> Iterator[tuple[str, str]]:
    if key.shape == ONE:
        yield "", key.kind.write(value)
    elif key.shape == LIST:
        yield from ((str(number), key.kind.write(one)) for number, one in enumerate(value, 1))
    elif key.shape == NAMES:
        yield from ((one.replace(".", "\\."), "true") for one in value)
    else:
        assert key.shape == MAP
        yield from ((name, key.kind.write(one)) for name, one in value.items())
