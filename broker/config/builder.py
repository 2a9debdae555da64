"""The builder of a Config: finds the key of each setting, reads its value, and collects the values."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from .config import Config, Contradiction, Part
from .ignored_keys import ALIASES, KEYS_NOT_FOLLOWED, SECTIONS, canonical_path, not_followed
from .keys import ANY, KEYS, LIST, MAP, NAMES, NONE, ONE, Key
from .rabbitmq_conf import path_of
from .setting import ConfigError, Path, Setting, dotted
from .value_types import NAME_LONGEST_BYTES, shown

Some = TypeVar("Some", bound=Part)

ENCRYPTED = "encrypted:"  # RabbitMQ's obfuscated values, which only RabbitMQ can decrypt
DIGITS = 18  # of a number by which an element of a list is ordered; a longer one is a name
SIMILAR = 0.8  # from 0 for two keys without a common letter to 1 for the same key, as difflib has it
LONGEST_MISSPELT = 200  # characters of a key that is compared with all keys, which takes time

EXACT: dict[Path, Key] = {key.path: key for key in KEYS if ANY not in key.path}
WITH_NAMES: tuple[Key, ...] = tuple(key for key in KEYS if ANY in key.path)


class ConfigBuilder:
    """The values collected so far; later settings win. `warnings` are about keys that are not followed, `origins` has
    the place where each field was set last.
    """

    __slots__ = ("warnings", "origins", "_ones", "_many", "_shapes", "_none")

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.origins: dict[str, str] = {}
        self._ones: dict[str, object] = {}
        self._many: dict[str, dict[str, object]] = {}  # field -> name -> value
        self._shapes: dict[str, str] = {}
        self._none: set[str] = set()  # fields that are empty, whatever other settings they have

    def add_all(self, settings: Iterable[Setting]) -> None:
        """Add settings in order. Raises ConfigError."""
        for setting in settings:
            self.add(setting)

    def add(self, setting: Setting) -> None:
        """Add a setting. Raises ConfigError."""
        path = canonical_path(setting.path)
        key, name = find(path)
        if key is None:
            self._add_unknown(setting, path)
            return
        if key.shape in (MAP, NAMES) and len(name.encode("utf-8", "surrogatepass")) > NAME_LONGEST_BYTES:
            raise setting.wrong(f"a name in a key has at most {NAME_LONGEST_BYTES} bytes")
        if "\0" in setting.text:
            raise setting.wrong("has a NUL character")
        if setting.text.startswith(ENCRYPTED):
            raise setting.wrong("an encrypted value cannot be read here; give it plain, or as $(VARIABLE)")
        try:
            value = key.kind.read(setting.text)
        except ValueError as error:
            raise setting.wrong(f"{error}{one_of(key, setting.text) if key.shape == NONE else ''}") from None
        if setting.replaces:
            self._many.pop(key.field, None)
            self._none.discard(key.field)
        if not key.field:
            return
        self.origins[key.field] = setting.origin
        if key.shape == ONE:
            self._ones[key.field] = value
        elif key.shape == NONE:
            self._none.add(key.field)
        else:
            self._many.setdefault(key.field, {})[name] = value
            self._shapes[key.field] = key.shape

    def _add_unknown(self, setting: Setting, path: Path) -> None:
        warning = not_followed(path, setting.text)
        if warning is None:
            raise ConfigError(f"{setting.origin}: unknown key {shown(dotted(setting.path))}{suggestion(path)}")
        if warning:
            self.warnings.append(f"{setting.origin}: {warning}")

    def config(self, defaults: Config) -> Config:
        """Return the configuration, with `defaults` for the rest. Raises ConfigError for contradictory values."""
        fields: dict[str, Any] = {}
        for field, value in self._ones.items():
            _put(fields, field, value)
        for field, values in self._many.items():
            _put(fields, field, shape_values(self._shapes[field], values))
        for field in self._none:
            _put(fields, field, ())
        try:
            return _changed(defaults, fields)
        except Contradiction as error:
            raise ConfigError(f"{self.origins.get(error.field, 'configuration')}: {error}") from None


def find(path: Path) -> tuple[Key | None, str]:
    """Return the key of a path, or None, and the names in place of its free elements."""
    key = EXACT.get(path)
    if key is not None:
        return key, ""
    for key in WITH_NAMES:
        name = key.names(path)
        if name is not None:
            return key, name
    return None, ""


def shape_values(shape: str, values: dict[str, object]) -> object:
    """Return collected values in the shape of their field. A list is in the order of its numbers, names follow."""
    if shape == MAP:
        return values
    if shape == NAMES:
        return tuple(name for name, chosen in values.items() if chosen)
    assert shape == LIST
    numbers = sorted((name for name in values if name.isdecimal() and len(name) <= DIGITS), key=int)
    return tuple(values[name] for name in dict.fromkeys((*numbers, *values)))


def _changed(part: Some, fields: dict[str, Any]) -> Some:
    """Return a part with these values in place of its own, also in its inner parts."""
    values = {}
    for name, value in fields.items():
        inner = getattr(part, name)
        values[name] = _changed(inner, value) if isinstance(inner, Part) else value
    return replace(part, **values)


def _put(fields: dict[str, Any], field: str, value: object) -> None:
    part, dot, rest = field.partition(".")
    if dot:
        _put(fields.setdefault(part, {}), rest, value)
    else:
        fields[field] = value


def one_of(empty: Key, text: str) -> str:
    """Return a question for a value of a key that only takes `none`, with the key of one element of its list."""
    of_names = any(key.shape == NAMES and key.path == (*empty.path, ANY) for key in WITH_NAMES)
    return f"; did you mean {shown(dotted((*empty.path, text if of_names else 'default')))}?"


def suggestion(path: Path) -> str:
    """Return a question with the key that was probably meant, or an empty text."""
    from difflib import SequenceMatcher  # here, because it is rarely needed

    def similarity(key: Path) -> float:
        ours = dotted(tuple(one for one in key if one != ANY))  # names, which are free, make no keys similar
        theirs = dotted(tuple(one for at, one in enumerate(path) if key[at : at + 1] != (ANY,)))
        return SequenceMatcher(None, theirs, ours).ratio()

    if len(dotted(path)) > LONGEST_MISSPELT:
        return ""
    for known in KEYS:
        if known.path == ("warren", *path) or (known.path[:-1] == path and known.path[-1] in ("absolute", "relative")):
            return f"; did you mean {dotted(known.path)}?"
    keys = [*(key.path for key in KEYS), *map(path_of, (*ALIASES, *KEYS_NOT_FOLLOWED))]
    keys += [(*section, *(ANY for _ in path[len(section) :])) for section in map(path_of, SECTIONS)]
    near = max(keys, key=similarity)
    named = tuple([*path[at : at + 1], "NAME"][0] if one == ANY else one for at, one in enumerate(near))
    return f"; did you mean {dotted(named)}?" if similarity(near) >= SIMILAR else ""
