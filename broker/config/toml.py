"""The parser of TOML files: the same keys as nested tables; a list is the elements 1, 2, 3."""

from collections.abc import Iterator

from .setting import ConfigError, Path, Setting

DEPTH = 16  # elements of a key; the longest known one has fewer
NUMBER_BITS = 64  # of a whole number in TOML


def parse(text: str, name: str) -> Iterator[Setting]:
    """Yield the settings of a file named `name`, without line numbers. Raises ConfigError."""
    import tomllib  # here, because it is rarely needed

    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply") from None
    except ValueError as error:  # also of a number with thousands of digits, which is no TOMLDecodeError
        raise ConfigError(f"{name}: {error}") from None
    yield from _flat((), table, name)


def _flat(path: Path, value: object, name: str) -> Iterator[Setting]:
    if len(path) > DEPTH:
        raise Setting(path[:DEPTH], "", name).wrong("nested too deeply")
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat((*path, key), inner, name)
    elif isinstance(value, list):
        for number, inner in enumerate(value, 1):
            yield from _flat((*path, str(number)), inner, name)
    elif isinstance(value, bool):
        yield Setting(path, "true" if value else "false", name)
    elif isinstance(value, int) and value.bit_length() > NUMBER_BITS:
        raise Setting(path, "", name).wrong(f"a whole number has at most {NUMBER_BITS} bits")
    elif isinstance(value, str | int | float):
        yield Setting(path, str(value), name)
    else:
        raise Setting(path, "", name).wrong("a date is no value here")
