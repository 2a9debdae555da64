"""The builder of a Config: finds the key of each setting, reads its value, and collects the values."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from .config import Config, Contradiction, Part
from .ignored_keys import ALIASES, canonical_path, not_followed
from .keys import ANY, KEYS, LIST, MAP, NAMES, NONE, ONE, Key
from .setting import ConfigError, Path, Setting, dotted
from .value_types import NAME_LONGEST_BYTES, shown

Some = TypeVar("Some", bound=Part)

ENCRYPTED = "encrypted:"  # RabbitMQ's obfuscated values, which only RabbitMQ can decrypt
DIGITS = 18  # of a number by which an element of a list is ordered; a longer one is a name

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
            raise setting.wrong(str(error)) from None
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
            raise ConfigError(f"{setting.origin}: unknown key {shown(dotted(setting.path))}{suggestion(setting.path)}")
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


def suggestion(path: Path) -> str:
    """Return a hint at the most similar key, or an empty text."""
    import difflib  # here, because it is rarely needed

    known = [dotted(key.path) for key in KEYS] + list(ALIASES)
    near = difflib.get_close_matches(dotted(path), known, 1, 0.8)
    return f"; did you mean {near[0].replace(ANY, 'NAME')}?" if near else ""
