"""Load a configuration from the text of a file, to its values or the one line of its error."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from warren.broker.config import Config, ConfigError, Sources

NOTHING: dict[str, str] = {}


def sources(
    path: Path | str | None = None, flags: Mapping[str, object] | None = None, environment: Mapping[str, str] = NOTHING
) -> Sources:
    """Return the sources of a configuration with an environment of its own."""
    return Sources(None if path is None else str(path), flags, environment)


def load(
    path: Path | str | None = None, flags: Mapping[str, object] | None = None, environment: Mapping[str, str] = NOTHING
) -> Config:
    return sources(path, flags, environment).load()


def refused(
    path: Path | str | None = None, flags: Mapping[str, object] | None = None, environment: Mapping[str, str] = NOTHING
) -> str:
    """Return the text of the error."""
    with pytest.raises(ConfigError) as caught:
        load(path, flags, environment)
    assert "\n" not in str(caught.value)
    return str(caught.value)
