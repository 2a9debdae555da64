"""The parser of rabbitmq.conf: one `key = value` a line.

`#` begins a comment anywhere, `%%` a comment line. A value in single quotes keeps `#` and outer spaces, and no comment
may follow it. `\\.` in a key is a dot within an element. `$(NAME)` in a value is replaced by an environment variable.
"""

import re
from collections.abc import Iterator, Mapping

from .setting import ConfigError, Path, Setting

_KEY = re.compile(r"(?:[^\s=#'.\\]|\\\.)+(?:\.(?:[^\s=#'.\\]|\\\.)+)*")
_VARIABLE = re.compile(r"\$\(([^()]*)\)")


def parse(text: str, name: str, environment: Mapping[str, str]) -> Iterator[Setting]:
    """Yield the settings of a file named `name`. Raises ConfigError."""
    for number, line in enumerate(text.split("\n"), 1):
        origin = f"{name}:{number}"
        line = line.strip()
        if not line or line.startswith(("#", "%%")):
            continue
        key, equals, rest = line.partition("=")
        key = key.strip()
        if not equals or not _KEY.fullmatch(key):
            hint = ": Erlang terms are not read" if line.startswith(("[", "{")) else ""
            raise ConfigError(f"{origin}: '{line}' is not KEY = VALUE{hint}")
        setting = Setting(path_of(key), "", origin)
        setting.text = _expanded(_value(setting, rest.strip()), setting, environment)
        yield setting


def path_of(key: str) -> Path:
    return tuple(element.replace("\\.", ".") for element in re.split(r"(?<!\\)\.", key))


def _value(setting: Setting, text: str) -> str:
    if text.startswith("'"):
        if len(text) < 2 or not text.endswith("'"):
            raise setting.wrong("a value in quotes ends with its quote, and no comment follows")
        return text[1:-1]
    text = text.partition("#")[0].rstrip()
    if not text:
        raise setting.wrong("has no value")
    return text


def _expanded(text: str, setting: Setting, environment: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise setting.wrong(f"the environment has no {match[1]}")
        return environment[match[1]]

    return _VARIABLE.sub(value, text)
