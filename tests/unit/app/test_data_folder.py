"""The data folder at a start: what may be in it, and what a start that fails removes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import environment_of
from tests.unit.config.loading import sources
from warren.broker.app.data_folder import DataFolder
from warren.broker.storage.errors import StorageFault
from warren.broker.storage.folder_lock import InUse


def folder_of(data: Path, *lines: str) -> DataFolder:
    """The folder of a broker whose configuration is in it."""
    file = data / "broker.conf"
    if lines:
        file.write_text("\n".join(lines))
    given = sources(file if lines else None, {"data_dir": str(data)})
    return DataFolder(given.load(), given)


@pytest.mark.parametrize(
    "names",
    [
        (),
        (".git/HEAD", ".gitignore", "lost+found/x"),
        ("lock", "ctl.sock", "message_log.json"),  # with a store on PostgreSQL
        ("meta.sqlite", "notes.txt"),
        ("log/00000001.log", "log/checkpoint", "notes.txt"),  # its metadata are lost
    ],
)
def test_an_empty_folder_and_one_of_a_broker_are_used(tmp_path: Path, names: tuple[str, ...]) -> None:
    make(tmp_path, names)
    folder_of(tmp_path).lock()


@pytest.mark.parametrize(
    "names",
    [("Makefile", "setup.py"), ("Makefile", "log/development.log", "lock"), ("Makefile", "data/x", ".git/x")],
)
def test_a_folder_of_something_else_is_refused_and_stays_as_it_is(tmp_path: Path, names: tuple[str, ...]) -> None:
    make(tmp_path, names)
    before = everything(tmp_path)
    folder = folder_of(tmp_path)
    with pytest.raises(StorageFault, match=f"^{tmp_path}: it has files of something else, such as Makefile: choose a"):
        folder.lock()
    folder.clean()
    assert everything(tmp_path) == before


def test_what_the_configuration_names_may_be_there_before_the_first_start(tmp_path: Path) -> None:
    make(tmp_path, ("tls/key.pem", "warren.log", "exports/dt/x"))
    lines = [f"ssl_options.certfile = {tmp_path}/tls/key.pem", f"log.dir = {tmp_path}", "log.file = warren.log"]
    with pytest.raises(StorageFault, match="such as exports: "):
        folder_of(tmp_path, *lines).lock()
    folder_of(tmp_path, *lines, f"message_log.directory = {tmp_path}/exports").lock()


def test_a_failed_start_removes_only_what_it_has_made(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    for kept in (False, True):
        folder = folder_of(data)
        folder.lock()
        make(data, ("meta.sqlite", "meta.sqlite-wal", "log/00000001.log", "ctl.sock"))
        if kept:
            folder.keep()
        folder.clean()
        assert (tmp_path / "new").exists() == kept
    (data / "lock").unlink()
    check_stays(data)


def test_a_failed_start_with_a_store_elsewhere_keeps_the_note_of_the_export(tmp_path: Path) -> None:
    make(tmp_path, ("message_log.json",))
    check_stays(tmp_path)


def check_stays(data: Path) -> None:
    """Check that a start that fails, and one that finds the folder locked by it, leave the folder as it is."""
    before = everything(data)
    folder = folder_of(data)
    folder.lock()
    other = folder_of(data)
    with pytest.raises(InUse):
        other.lock()
    other.clean()
    assert everything(data) == before | {data / "lock"}
    folder.clean()
    assert everything(data) == before


def make(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def everything(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


LATE = """
import sys

from warren.broker.app.main import DaemonParts, serve
from warren.broker.config import Sources
from warren.broker.plugin import Host, Service


class Late(Service):
    async def start(self, host: Host) -> None:
        with host.acting("guest"):
            for name in sys.argv[2:]:
                host.node.vhosts["/"].declare_queue(name, durable=True)
        await host.stored()
        raise ValueError("too late")

    async def stop(self) -> None: ...


sources = Sources(flags={"data_dir": sys.argv[1], "amqp": ["127.0.0.1:0"]}, environment={})
sys.exit(serve(sources.load(), sources, DaemonParts(services={"late": Late()})))
"""


@pytest.mark.parametrize("queues", [[], ["stored"]])
def test_a_start_that_fails_after_clients_were_served_keeps_what_they_have_stored(
    tmp_path: Path, queues: list[str]
) -> None:
    data = tmp_path / "data"
    words = [sys.executable, "-c", LATE, str(data), *queues]
    done = subprocess.run(words, env=environment_of(tmp_path), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 69 and "too late" in done.stdout, done.stderr
    assert (data / "meta.sqlite").exists() == data.exists() == bool(queues)
