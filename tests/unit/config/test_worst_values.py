"""Every key with the worst values: each is refused in one line with its place, or its readers can use it."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.speed import without_collector
from warren.broker.app.build import build_settings, password_rules
from warren.broker.app.listeners import socket_options
from warren.broker.config import Config, ConfigError
from warren.broker.config.builder import ConfigBuilder
from warren.broker.config.keys import ANY, KEYS, MAP, NAMES, ONE, Key
from warren.broker.config.printing import value_of
from warren.broker.config.setting import Setting, dotted
from warren.broker.config.value_types import FilePath, Fraction, Integer, Listener, RegularExpression
from warren.broker.core.access.permissions import Permission
from warren.broker.core.telemetry.resource_alarms import Alarms
from warren.broker.plugin_host.host import watermarks
from warren.broker.runtime.resource_monitor import Resources

TEXTS = ("", "x", "a\0b", "\N{EURO SIGN}", "\udcff", "a" * 70_000, "a" * 300, "x\ty\nz", "*", "(" * 5000 + ")" * 5000)
NUMBERS = (
    *(str(number) for number in (-1, 0, 1, 1 << 31, 1 << 63, 10**19, 10**30, 10**308, 10**400)),
    *("9" * 5000, "1.5", "1e5", "nan", "inf", "\u0663", "1PiB", "9" * 19 + "PiB", "9" * 400 + ".5"),
)
HOSTS = (
    "a..b",
    ".a",
    "a" * 300,
    "a." * 200,
    "[::1",
    "fe80::1%none",
    "999.1.1.1",
    "",
    "a\0b",
    "\N{EURO SIGN}",
    "\udcff",
)
PATTERNS = (
    *("(", "*", "[", "\\", "(((a{1000}){1000}){1000})", "((a{1000}){1000})", "(a|b)" * 20_000, "(?R)", "\\L<x>"),
    *("a\n(", "a{9999999999999999999999}", "(?P<x>a)(?P<x>b)", "(?V2)a", "^(a|aa)+$", "a{8000}"),
)


def worst(key: Key) -> Iterator[str]:
    yield from (*TEXTS, *NUMBERS)
    if isinstance(key.kind, Integer):
        yield from (str(number) for number in (key.kind.least, key.kind.most, key.kind.most + 1))
    elif isinstance(key.kind, RegularExpression):
        yield from PATTERNS
    elif isinstance(key.kind, Listener):
        yield from (f"{host}:{port}" for host in HOSTS for port in (0, 65_536, "9" * 5000))
    elif key.path[-1] == "ip":
        yield from HOSTS


def use(config: Config) -> None:
    """Use the values of a configuration as a start does."""
    resources = Resources(Alarms(), lambda: 1 << 40, lambda: None, memory_bytes=config.total_memory_bytes)
    memory_bytes, disk_bytes = watermarks(config, resources)
    resources.set_vm_memory_high_watermark(memory_bytes)
    resources.set_disk_free_limit(disk_bytes)
    assert resources.memory_look_s() > 0
    password_rules(config)
    rights = config.default_permissions
    Permission(rights.configure, rights.write, rights.read)
    build_settings(config)
    socket_options(config)


def use_one(key: Key, value: object) -> None:
    """Use a value of a key as all readers of such a value do."""
    key.kind.write(value)
    if isinstance(key.kind, Integer | Fraction) and value is not None:
        assert isinstance(value, int | float)
        assert 0 <= value / 1000 < 1 << 63
    elif isinstance(key.kind, FilePath):
        Path(str(value)).exists()
    elif isinstance(key.kind, Listener) or key.path[-1] == "ip":
        host = value[0] if isinstance(value, tuple) and value else value
        assert host == () or str(host).encode("idna")
    elif isinstance(value, str):
        assert len(os.fsencode(value)) < 1 << 16
        assert "\0" not in value


def add(key: Key, path: tuple[str, ...], text: str) -> None:
    """Add a value to a configuration, which refuses it with its place, or use it."""
    builder = ConfigBuilder()
    try:
        builder.add(Setting(path, text, "place"))
        config = builder.config(Config(credential_validator="password_regexp"))
    except ConfigError as error:
        assert str(error).startswith("place: ")
        assert len(str(error)) < 600
        assert "\n" not in str(error)
    else:
        use(config)
        value = value_of(key, config) if key.field else ""
        for one in (value,) if key.shape == ONE else value.values() if key.shape == MAP else value:
            use_one(key, one)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: dotted(key.path))
def test_the_worst_values_of_a_key_are_refused_with_their_place_or_can_be_used(key: Key) -> None:
    path = tuple("1" if element == ANY else element for element in key.path)
    refused = [(*path, "\n" * 300)]
    if key.shape in (MAP, NAMES):
        refused.append(tuple("\n" * 300 if element == ANY else element for element in key.path))
    for wrong in refused:
        with pytest.raises(ConfigError, match=r"^place: [^\n]{1,200}$"):
            ConfigBuilder().add(Setting(wrong, "true", "place"))
    for text in worst(key):
        with without_collector():
            begun_s = time.thread_time()
            add(key, path, text)
            assert time.thread_time() - begun_s < 0.5, text[:50]
