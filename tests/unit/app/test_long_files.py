"""Files that are read as a whole have a bound: one such as /dev/zero never ends."""

from collections.abc import Callable
from pathlib import Path

import pytest

from warren.broker.config import Sources
from warren.broker.core.definitions import files
from warren.broker.ctl.api_client import password_of
from warren.broker.operator.feature_flags import VARIABLE, missing_plugins
from warren.broker.system_errors import MIB, read_text


def of_environment(path: Path) -> object:
    return Sources(None, {}, {"RABBITMQ_DEFAULT_PASS_FILE": str(path)}).load()


def of_folder(path: Path) -> object:
    return Sources(str(path), {}, {"RABBITMQ_CONFIG_FILES": str(path.parent)}).load()


def of_store(path: Path) -> object:
    return pytest.importorskip("warren.broker.storage.postgresql.address").parse("postgresql://u@h/d", str(path))


READERS: list[Callable[[Path], object]] = [
    lambda path: Sources(str(path)).load(),
    of_folder,
    of_environment,
    of_store,
    files.read,
    lambda path: password_of(str(path), "user", "host:1"),
    read_text,
]


@pytest.mark.parametrize("read", READERS)
def test_a_file_that_is_too_long_is_refused_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object]
) -> None:
    monkeypatch.setattr(files, "DEFINITIONS_LIMIT", MIB)  # a smaller file does for the test
    path = tmp_path / "long.conf"
    path.write_bytes(b"#" * 100)
    read(path)
    path.write_bytes(b"#" * (MIB + 1))
    with pytest.raises(Exception, match="it is longer than 1 MiB: check the path") as raised:
        read(path)
    assert str(path) in (str(raised.value) or str(getattr(raised.value, "text", "")))


def test_a_long_file_of_plugins_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "enabled_plugins"
    monkeypatch.setenv(VARIABLE, str(path))
    path.write_bytes(b"[unknown]." + b" " * 100)
    assert missing_plugins(()) == ["unknown"]
    path.write_bytes(b"[unknown]." + b" " * MIB)
    assert missing_plugins(()) == []
