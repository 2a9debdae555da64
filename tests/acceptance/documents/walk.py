"""The blocks of one document, run in their order in a folder of their own, as a reader would run them.

127.0.0.1 is replaced by a loopback address that no other test uses, the default ports by ports that are free there,
whoever listens at the default ports of all addresses, and folders such as /etc/warren by ones below the folder.
Everything that a block starts ends with the document.
"""

import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import tomllib
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from tests.support import postgresql
from tests.support.broker_process import environment_of
from tests.support.checkout import ROOT
from tests.support.polling import until
from warren.broker.config import Sources

from .blocks import BadBlock, Block

BLOCK_WITHIN_S = 200.0
END_WITHIN_S = 20.0
OURS = "127.0.0.1"
DEFAULT_PORT = re.compile(r"\b1?56[79]\d\b")  # 5672 of AMQP, 15672 of HTTP, 15692 of the metrics, and their neighbours
PORTS = tuple(first + number for first in (5670, 15670, 15690) for number in range(10))
OPTIONAL = {"management.tcp.port": "15672", "prometheus.tcp.port": "15692"}  # if in use, a broker serves without them
ATTEMPTS = 100
MAPPED = ("/etc/warren", "/var/lib/warren", "/opt/warren")
SERVERS = "server-a,server-b"  # the PostgreSQL servers of the documents
READY = re.compile(r'"event":"ready"')
BESIDE = "../warren"
CLONED = shutil.ignore_patterns(
    *(".git", ".venv", "build", "node_modules", "__pycache__", "*.so", "*.egg-info", ".*_cache", ".hypothesis")
)


@dataclass
class Started:
    """The process of a block, whose group has all that it starts, and the files of its output."""

    process: subprocess.Popen[bytes]
    line: list[str]
    output: Path
    errors: Path

    def status(self) -> int | None:
        """The exit status, or None while it runs. It stays a zombie, so that no other group gets its number."""
        ended = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return None if ended is None else ended.si_status

    def end(self) -> None:
        """End the group: SIGTERM, and SIGKILL for what is left."""
        if self.process.returncode is not None:
            return
        os.killpg(self.process.pid, signal.SIGTERM)
        give_up = time.monotonic() + END_WITHIN_S
        while members(self.process.pid) and time.monotonic() < give_up:
            time.sleep(0.02)
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def tail(self) -> str:
        return "\n".join(file.read_text(errors="replace")[-2000:] for file in (self.output, self.errors))


def members(group: int) -> list[int]:
    """The processes of a group that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(its_group) == group and state != "Z":
            found.append(int(stat.parent.name))
    return found


def free_ports() -> tuple[str, int]:
    """A loopback address, and the distance from the default ports to ports that are free on it.

    It keeps the number of digits, as columns of an output have widths.
    """
    for _ in range(ATTEMPTS):
        address = f"127.{random.randint(1, 254)}.{random.randint(0, 255)}.{random.randint(2, 254)}"
        distance = random.randint(100, 4000)
        with suppress(OSError):
            for port in PORTS:
                socket.create_server((address, port + distance)).close()
            return address, distance
    raise AssertionError(f"no free ports on {ATTEMPTS} loopback addresses, such as {address}:{PORTS[0] + distance}")


class Walk:
    """One document: `run` runs a block, and `finish` the tests that its blocks have written."""

    def __init__(self, folder: Path, text: str, *, clone: bool = False) -> None:
        """Begin in `folder`: in a `clone` of the project, or in an empty folder, beside which there is one if the text
        names it. `text` is that of all blocks.

        With a clone the document installs Warren, in an environment of its own; else it has this checkout.
        """
        self.folder = folder / "project"
        self.address, self._distance = free_ports()
        self._text = text
        self.unchecked: list[str] = []  # the programs that would check a block, and are not installed
        self._end = ExitStack()
        self._last: Started  # the last block that was run
        self._background: Started | None = None
        self._scripts = folder / "scripts"
        self._scripts.mkdir()
        self._servers = ""
        if clone:
            shutil.copytree(ROOT, self.folder, ignore=CLONED, symlinks=True)
            makefile = self.folder / "Makefile"
            makefile.write_text(self._here(makefile.read_text()))
        else:
            self.folder.mkdir()
        beside = BESIDE in text
        if beside:
            shutil.copytree(ROOT, folder / "warren", ignore=CLONED, symlinks=True)
        self._environment = {
            name: value
            for name, value in environment_of(folder / "checkout").items()
            if not name.startswith(("PYTEST", "RABBITMQ", "WARREN", "COV"))
        } | {
            "RABBITMQ_NODE_IP_ADDRESS": self.address, "RABBITMQ_NODE_PORT": self._here("5672"),
            "RABBITMQ_CONFIG_FILE": str(self._defaults(folder, text)),
            "WARREN_PURE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }  # fmt: skip
        if clone or beside:
            self._virtual_environment(self.folder / ".venv" if clone else folder / "venv")
        else:
            self._path(programs(folder / "bin"))

    def _defaults(self, folder: Path, text: str) -> Path:
        """Write a configuration with the optional ports that the document uses; one with several brokers uses none."""
        path = folder / "defaults.conf"
        path.write_text("".join(f"{key} = {self._here(port)}\n" for key, port in OPTIONAL.items() if port in text))
        return path

    def _path(self, programs: Path) -> None:
        self._environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"

    def _virtual_environment(self, venv: Path) -> None:
        """Make an environment with all that this one has but Warren, which pip installs there."""
        subprocess.run([sys.executable, "-m", "venv", "--symlinks", "--without-pip", str(venv)], check=True)
        others = venv / "others"
        others.mkdir()
        for path in Path(sysconfig.get_path("purelib")).iterdir():
            if not path.name.startswith(("warren", "__editable__")):
                (others / path.name).symlink_to(path)
        (packages,) = venv.glob("lib/python*/site-packages")
        (packages / "others.pth").write_text(f"{others}\n")
        for name in ("pip", "pytest", "ruff"):
            (venv / "bin" / name).write_text(f'#!/bin/sh\nexec "{venv}/bin/python" -m {name} "$@"\n')
            (venv / "bin" / name).chmod(0o755)
        self._environment.pop("PYTHONPATH")
        self._environment |= {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "VIRTUAL_ENV": str(venv)}
        self._path(venv / "bin")

    def __enter__(self) -> "Walk":
        return self

    def __exit__(self, *error: object) -> None:
        self._end.close()

    def run(self, block: Block) -> None:
        """Run or parse this block. Raises BadBlock if it fails or prints something else than the document says."""
        run = getattr(self, f"_run_{block.language}", None)
        if run is None:
            raise BadBlock(f"{block.place}: walk.py has no way to check the language {block.language}")
        text = self._here(block.text)
        block = replace(block, text=text)
        path = (self.folder if block.name else self._scripts) / (block.name or f"block-{block.line}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        run(block, path)

    def finish(self) -> None:
        """Run the tests that the blocks have written, if any."""
        if any(self.folder.glob("test_*.py")) and not (self.folder / "Makefile").exists():
            # A document shows the shortest lines: what a client leaves open is no failure of ours.
            ran = self._start("tests", ["python", "-m", "pytest", "-q", "-Wdefault", "-p", "no:cacheprovider"])
            if self._wait(ran):
                raise BadBlock(f"the tests that the blocks have written fail:\n{ran.tail()}")

    def _here(self, text: str) -> str:
        """The text with the address, ports, folders and servers of this run."""
        text = DEFAULT_PORT.sub(lambda port: str(int(port[0]) + self._distance), text.replace(OURS, self.address))
        for folder in MAPPED:
            text = text.replace(folder, f"{self.folder.parent}{folder}")
        if SERVERS in text:
            text = text.replace(SERVERS, self._postgresql())
        return text

    def _postgresql(self) -> str:
        """The addresses of a primary and a synchronous standby with the role and the database of the documents."""
        if not self._servers:
            primary, standby = self._end.enter_context(postgresql.replicated())
            primary.execute("CREATE ROLE warren LOGIN")
            for database in ("warren", "moved"):
                primary.execute(f"CREATE DATABASE {database} OWNER warren")
            self._servers = ",".join(f"{OURS}:{server.port}" for server in (primary, standby))
        return self._servers

    # Languages: each method gets the block, and a file with its text

    def _run_sh(self, block: Block, path: Path) -> None:
        self._execute(block, ["bash", "-eu", "-o", "pipefail", str(path)])

    def _run_python(self, block: Block, path: Path) -> None:
        is_run_later = block.name and f"\npython {block.name}" in self._text
        if not is_run_later and not block.name.startswith(("test_", "conftest")):
            self._execute(block, ["python", str(path)])

    def _run_output(self, block: Block, path: Path) -> None:
        give_up = time.monotonic() + BLOCK_WITHIN_S
        while not self._printed(block):
            if "eventually" not in block.comments or time.monotonic() > give_up:
                raise BadBlock(f"{block.place}: the block before prints something else:\n{self._last.tail()}")
            self._last = self._start(self._last.output.stem, self._last.line)
            self._wait(self._last)

    def _printed(self, block: Block) -> bool:
        """Whether the last block that was run has printed this one, in which `...` is any text."""
        expected, printed = block.text, self._last.output.read_text(errors="replace")
        if "numbers vary" in block.comments:
            expected, printed = (re.sub(r"\d+", "0", text) for text in (expected, printed))
        return (
            re.fullmatch(re.escape(expected.strip()).replace(r"\.\.\.", ".*"), printed.strip(), re.DOTALL) is not None
        )

    def _run_ini(self, block: Block, path: Path) -> None:
        if block.name.endswith(".service"):
            for name in re.findall(rf"{self.folder.parent}\S+", path.read_text()):
                Path(name).parent.mkdir(parents=True, exist_ok=True)
                Path(name).touch(0o755)
            self._check(block, "systemd-analyze", "verify", str(path))
        else:
            sources = Sources(str(path), environment={})
            try:
                sources.load()
            except ValueError as error:
                raise BadBlock(f"{block.place}: {error}") from error
            if sources.warnings:
                raise BadBlock(f"{block.place}: {sources.warnings}")

    def _run_toml(self, block: Block, path: Path) -> None:
        tomllib.loads(path.read_text(encoding="utf-8"))

    def _run_json(self, block: Block, path: Path) -> None:
        json.loads(path.read_text(encoding="utf-8"))

    def _run_yaml(self, block: Block, path: Path) -> None:
        yaml.safe_load(path.read_text(encoding="utf-8"))

    def _run_haproxy(self, block: Block, path: Path) -> None:
        self._check(block, "haproxy", "-c", "-f", str(path))

    def _run_sql(self, block: Block, path: Path) -> None:
        """Use a server of its own, as the role may be there already on the one of the other blocks."""
        folder = postgresql.programs()
        assert folder is not None
        with postgresql.cluster(*postgresql.CARELESS) as server:
            self._check(block, str(folder / "psql"), "-v", "ON_ERROR_STOP=1", "-f", str(path), server.conninfo())

    def _run_text(self, block: Block, path: Path) -> None:
        """A picture."""

    def _execute(self, block: Block, line: list[str]) -> None:
        background = "in the background" in block.comments
        if background and self._background is not None:
            self._background.end()
        started = self._last = self._start(str(block.line), line)
        if background:
            self._background = started
            until(
                lambda: READY.search(started.errors.read_text()) or started.status() is not None,
                lambda: f"{block.place} is not ready:\n{started.tail()}",
                BLOCK_WITHIN_S,
            )
            if started.status() is not None:
                raise BadBlock(f"{block.place} ended with status {started.status()}:\n{started.tail()}")
            return
        wanted = int(block.comments.get("exit status", "0"))
        if (status := self._wait(started)) != wanted:
            raise BadBlock(f"{block.place} ended with status {status}:\n{block.text}\n{started.tail()}")

    def _start(self, name: str, line: list[str]) -> Started:
        output, errors = self._scripts / f"{name}.out", self._scripts / f"{name}.err"
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(
                line, cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True,
            )  # fmt: skip
        started = Started(process, line, output, errors)
        self._end.callback(started.end)
        return started

    def _wait(self, started: Started) -> int:
        until(lambda: started.status() is not None, started.tail, BLOCK_WITHIN_S)
        status = started.status()
        assert status is not None
        return status

    def _check(self, block: Block, program: str, *words: str) -> None:
        """Check a block by a program, if that is installed."""
        if shutil.which(program) is None:
            self.unchecked.append(f"{block.place} needs {program}")
            return
        checked = subprocess.run([program, *words], capture_output=True, text=True, timeout=BLOCK_WITHIN_S, check=False)
        if checked.returncode:
            raise BadBlock(f"{block.place}: {program} refuses it:\n{checked.stdout}{checked.stderr}")


def programs(folder: Path) -> Path:
    """A folder with the commands of the documents, which run this checkout."""
    folder.mkdir()
    commands = {
        "python": [], "python3": [], "warren": ["-m", "warren.broker.cli"], "warrenctl": ["-m", "warren.broker.ctl"],
        "pytest": ["-m", "pytest", "-p", "no:cacheprovider"],
    }  # fmt: skip
    for name, words in commands.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *words])} "$@"\n')
        (folder / name).chmod(0o755)
    return folder
