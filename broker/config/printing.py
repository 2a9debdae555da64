"""The printer of a configuration in the format of rabbitmq.conf: every key with its value, readable again."""

from collections.abc import Iterator
from typing import Any, NamedTuple

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


class Change(NamedTuple):
    """A key whose values differ, each as a text: `none` for no value, empty for a secret."""

    key: str
    before: str
    after: str

    @property
    def reloads(self) -> bool:
        """Whether the key takes effect when the configuration is reloaded; all others need a restart."""
        return self.key.startswith("log.")

    def __str__(self) -> str:
        return f"{self.key} {self.before} -> {self.after}" if self.before else self.key


def changes(before: Config, after: Config) -> list[Change]:
    """Return the keys whose values differ. Of several keys of one field it is the first."""
    found: dict[str, Change] = {}
    for key in KEYS:
        if key.field and key.shape != NONE and value_of(key, before) != value_of(key, after):
            values = (", ".join(text for _, text in _elements(key, value_of(key, one))) for one in (before, after))
            old, new = ("" if key.secret else text or "none" for text in values)
            found.setdefault(key.field, Change(dotted(key.path).partition(f".{ANY}")[0], old, new))
    return list(found.values())


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
        yield from ((dotted((one,)), "true") for one in value)
    else:
        assert key.shape == MAP
        yield from ((dotted((name,)), key.kind.write(one)) for name, one in value.items())
