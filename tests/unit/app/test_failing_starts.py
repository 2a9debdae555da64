"""Starts that fail: a line with the reason and what to do, an exit status of sysexits.h, and no traceback."""

import fcntl
import os
import pwd
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trustme

from tests.support.broker_process import WARREN, WARRENCTL, command_line, environment_of
from tests.support.checkout import ROOT
from tests.support.fork_server import fork_server

pytestmark = pytest.mark.sockets
HOST = "127.16.4.1"
ANY = f"{HOST}:0"
WITHIN_S = 60
NOBODY = 65534
IN_USE = f"another program listens there: {Path('/proc/self/comm').read_text().strip()} (pid {os.getpid()})"
OTHER = "chooses another address"
NO_RIGHT = "the user nobody has no right to it: run as the user it belongs to, or change its owner or mode"
OTHER_PATH = "choose another path"
SENTENCE = re.compile(r"(?:warren(?: \w+)?|warrenctl|Error): (.+)|\S+ \S+ \[error\] <0\.0\.0> (.+)")
FORMAT = "log.console.formatter = plaintext"  # as on a terminal


class Start:
    """A folder with what a start may need, and a port that another program has."""

    def __init__(self, folder: Path, taken: int) -> None:
        self.folder = folder
        self.taken = taken

    def config(self, *lines: str) -> list[str]:
        """The words of a broker in memory with these keys."""
        path = self.folder / "broker.conf"
        path.write_text("\n".join([FORMAT, *lines]) + "\n", encoding="utf-8")
        return ["serve", "--memory", "--amqp", ANY, "--http", ANY, "--config", str(path)]

    def stored(self, data: object, *lines: str) -> list[str]:
        return [word for word in self.config(*lines) if word != "--memory"] + ["--data", str(data)]

    def new(self, *lines: str) -> list[str]:
        """The words of a broker with a data folder that has to be made, as has the one above it."""
        return self.stored(self.folder / "new" / "data", *lines)

    def tls(self, certfile: object, keyfile: object, *lines: str) -> list[str]:
        files = f"ssl_options.certfile = {certfile}", f"ssl_options.keyfile = {keyfile}"
        return self.config(f"listeners.ssl.1 = {ANY}", *files, *lines)

    def file(self, name: str, text: str = "") -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def contents(self) -> set[Path]:
        """All files and folders, without those by which the command itself runs."""
        paths = (path.relative_to(self.folder) for path in self.folder.rglob("*"))
        return {path for path in paths if path.parts[0] not in ("output", "installed")}

    def authority(self) -> tuple[Path, Path]:
        """Files with a certificate and its key."""
        issued = trustme.CA().issue_cert("localhost")
        certificate, key = self.folder / "certificate.pem", self.folder / "key.pem"
        issued.cert_chain_pems[0].write_to_path(certificate)
        issued.private_key_pem.write_to_path(key)
        return certificate, key


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with socket.create_server((HOST, 0)) as taken:
        yield Start(tmp_path, taken.getsockname()[1])


def ended(folder: Path, words: Sequence[str], module: str = WARREN) -> tuple[int, str]:
    """Run a command until it ends; return its exit status and its output."""
    path = folder / "output"
    with path.open("wb") as output:
        process = fork_server().start(module, words, folder, environment_of(folder), output)
    try:
        status = process.wait(WITHIN_S)
    finally:
        process.kill()
    return status, path.read_text()


def check(found: tuple[int, str], status: int, sentence: str) -> None:
    """Check that the error is one line, which begins with this sentence."""
    said = [next(filter(None, line.groups())) for line in SENTENCE.finditer(found[1])]
    assert found[0] == status and "Traceback" not in found[1] and "Errno" not in found[1], found
    assert len(said) == 1 and said[0].startswith(sentence), found


TAKEN = f"cannot listen at {HOST}:{{taken}}: {IN_USE}; "
DATA = "cannot use the data folder: {folder}/"
CERTIFICATES = "cannot listen with TLS: {folder}/"
MANAGEMENT = "the service management cannot start: "
# name -> exit status, beginning of the error with the folder and the taken port, words of the command
# fmt: off
CASES: dict[str, tuple[int, str, Callable[[Start], list[str]]]] = {
    "port in use": (
        69, f"{TAKEN}--amqp {HOST}:", lambda start: at(start, f"{HOST}:{start.taken}")),
    "port of HTTP in use": (
        69, f"{MANAGEMENT}{TAKEN}--http {HOST}:", lambda start: [*start.new(), "--http", f"{HOST}:{start.taken}"]),
    "port of metrics in use": (
        69, f"the service prometheus cannot start: {TAKEN}--metrics {HOST}:",
        lambda start: start.config(f"prometheus.tcp.ip = {HOST}", f"prometheus.tcp.port = {start.taken}")),
    "address of another machine": (
        69, f"cannot listen at 203.0.113.9:0: this machine has no such address; --amqp HOST:PORT {OTHER}",
        lambda start: at(start, "203.0.113.9:0")),
    "data is a file": (
        69, f"{DATA}data: it is a file, and a folder is needed", lambda start: start.stored(start.file("data"))),
    "data of a relative path are a file": (
        69, f"{DATA}data: it is a file, and a folder is needed",
        lambda start: start.stored(start.file("data").relative_to(start.folder))),
    "metadata of a relative path are of something else": (
        69, f"{DATA}d/meta.sqlite: file is not a database: restore the file",
        lambda start: start.stored(start.file("d/meta.sqlite", "garbage" * 1000).parent.relative_to(start.folder))),
    "data below a file": (
        69, f"{DATA}file/data: a part of the path is a file", lambda start: start.stored(start.file("file") / "data")),
    "data are of something else": (
        69, f"{DATA}project: it has files of something else, such as Makefile: choose a new folder, an empty one or",
        lambda start: start.stored(start.file("project/Makefile").parent)),
    "metadata of something else": (
        69, f"{DATA}meta.sqlite: file is not a database: restore the file",
        lambda start: start.stored(start.file("meta.sqlite", "garbage" * 1000).parent)),
    "no certificate": (
        69, f"{CERTIFICATES}none.pem: there is no such file or folder",
        lambda start: start.tls(start.folder / "none.pem", start.folder / "none.pem")),
    "key of another certificate": (
        69, f"{CERTIFICATES}other.pem is not the key of the certificate in",
        lambda start: start.tls(start.authority()[0], start.file("other.pem", other_key()))),
    "no PEM": (
        69, f"{CERTIFICATES}junk.pem: it has no certificate in PEM format",
        lambda start: start.tls(start.file("junk.pem", "junk"), start.authority()[1])),
    "certificate of HTTP": (
        69, f"{MANAGEMENT}{{folder}}/none.pem: there is no such file",
        lambda start: start.config("management.ssl.port = 0", f"management.ssl.certfile = {start.folder}/none.pem")),
    "unknown key": (78, "{folder}/broker.conf:2: ", lambda start: start.config("hartbeat = 1")),
    "no configuration": (78, "/none: there is no such", lambda start: ["serve", "--config", "/none"]),
    "log file is a folder": (
        78, f"{{folder}}/broker.conf:2: log.file: {{folder}}: it is a folder, and a file is needed: {OTHER_PATH}",
        lambda start: start.config("log.file = .")),
    "definitions that are no JSON": (
        78, "cannot load the definitions: {folder}/definitions: failed to parse JSON",
        lambda start: start.new(f"load_definitions = {start.file('definitions', '{')}")),
    "log of requests below a file": (
        69, f"{MANAGEMENT}management.http_log_dir: ",
        lambda start: start.config(f"management.http_log_dir = {start.file('file')}/log")),
    "doctor without a folder": (66, "/none: there is no", lambda start: ["doctor", "--data", "/none"]),
}
# fmt: on


def at(start: Start, address: str) -> list[str]:
    return [*start.new(), "--amqp", address]


def other_key() -> str:
    return trustme.CA().issue_cert("other").private_key_pem.bytes().decode()


@pytest.mark.parametrize("case", CASES)
def test_a_start_that_fails_ends_with_one_sentence_and_leaves_nothing(start: Start, case: str) -> None:
    status, sentence, words_of = CASES[case]
    words = words_of(start)
    before = start.contents()
    check(ended(start.folder, words), status, sentence.format(folder=start.folder, taken=start.taken))
    assert start.contents() == before


def test_a_folder_that_another_broker_has_is_named_with_what_to_do(start: Start) -> None:
    data = start.folder / "data"
    data.mkdir()
    with (data / "lock").open("w") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        locked.write("4711")
        locked.flush()
        sentence = f"{data} is in use by another broker (pid 4711); stop that one, or keep the data of this one in"
        check(ended(start.folder, start.stored(data)), 73, sentence)
    assert (data / "lock").read_text() == "4711"


def test_warrenctl_without_a_broker_says_where_it_looked(start: Start) -> None:
    status, output = ended(start.folder, ["--data", str(start.folder), "status"], WARRENCTL)
    assert status == 69 and f"{start.folder}/ctl.sock: No such file or directory\nNo broker answers" in output.replace(
        "\n\n", "\n"
    )


# Those for which a process of another user, a file system of its own, or a lower limit is needed


def run(
    start: Start, words: Sequence[str], module: str = WARREN, user: int | None = None, files: int = 0
) -> tuple[int, str]:
    """Run a command as a process of this user, with at most so many open files."""

    def limit() -> None:
        if files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    with (start.folder / "output").open("w+b") as output:
        done = subprocess.run(
            command_line(*words, module=module), cwd="/", env=environment_of(start.folder), stdin=subprocess.DEVNULL,
            stdout=output, stderr=output, timeout=WITHIN_S, check=False, user=user, preexec_fn=limit,
        )  # fmt: skip
        output.seek(0)
        return done.returncode, output.read().decode()


@contextmanager
def mounted(folder: Path) -> Iterator[Callable[[str], object]]:
    """A small file system of its own; the function mounts it again with other options."""
    folder.mkdir()

    def mount(*options: str) -> object:
        return subprocess.run(["mount", *options, str(folder)], check=True)

    with ExitStack() as undo:
        mount("-t", "tmpfs", "-o", "size=1m", "tmpfs")
        undo.callback(subprocess.run, ["umount", "-l", str(folder)], check=True)
        yield lambda options: mount("-o", options)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter, other than those of pytest."""
    with TemporaryDirectory(prefix="warren-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


OF_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="it changes the user of a process, or mounts a file system")


@OF_ROOT
@pytest.mark.rest("five processes from nothing")
def test_a_user_without_the_right_is_named(start: Start, open_folder: Path) -> None:
    start.folder = open_folder
    try:
        subprocess.run([sys.executable, "-c", ""], user=NOBODY, check=True)
    except (PermissionError, subprocess.CalledProcessError):
        pytest.skip("the user nobody may not run this interpreter")
    data = start.folder / "data"
    data.mkdir(mode=0o700)
    words = start.stored(data)
    check(run(start, words, user=NOBODY), 69, f"cannot use the data folder: {data}: {NO_RIGHT}")
    check(run(start, ["doctor", "--data", str(data)], user=NOBODY), 69, f"{data}/meta.sqlite: {NO_RIGHT}")
    low = [*start.config(), "--amqp", f"{HOST}:80"]
    reason = "ports below 1024 need root or CAP_NET_BIND_SERVICE, which the user nobody lacks"
    lowest = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    if lowest > 80:
        check(run(start, low, user=NOBODY), 69, f"cannot listen at {HOST}:80: {reason}; --amqp HOST:PORT {OTHER}")
    certificate, key = start.authority()
    key.chmod(0o600)
    check(run(start, start.tls(certificate, key), user=NOBODY), 69, f"cannot listen with TLS: {key}: {NO_RIGHT}")
    status, output = run(start, ["--data", str(data), "status"], WARRENCTL, user=NOBODY)
    name = pwd.getpwuid(os.geteuid()).pw_name
    says = f"Only root and the user of the broker, {name}, may use this socket: run `sudo -u {name} warrenctl ...`, or"
    assert status == 69 and says in output


@OF_ROOT
@pytest.mark.rest("a file system is mounted")
def test_a_disk_that_is_full_or_read_only_is_named(start: Start) -> None:
    disk = start.folder / "disk"
    with mounted(disk) as remount:
        with (disk / "filler").open("wb") as filler, pytest.raises(OSError, match="No space"):
            filler.write(bytes(2 << 20))
        reason = f"{disk}/data: the disk is full: free some space, or choose a path on another disk"
        check(ended(start.folder, start.stored(disk / "data")), 69, f"cannot use the data folder: {reason}")
        remount("remount,ro")
        reason = "its file system is read-only: mount it for writing, or choose another path"
        check(ended(start.folder, start.stored(disk / "new")), 69, f"cannot use the data folder: {disk}/new: {reason}")


@pytest.mark.rest("two processes from nothing")
def test_too_few_open_files_end_the_start_before_it_does_anything(start: Start) -> None:
    advice = "raise the limit of open files (ulimit -n, or LimitNOFILE in a unit of systemd)"
    for files in (20, 40):
        found = run(start, start.stored(start.folder / "data"), files=files)
        check(found, 69, f"the limit of open files is {files}, and a broker needs 64: {advice}")
    assert not (start.folder / "data").exists()


@pytest.mark.rest("PySpark is imported")
def test_an_analysis_without_java_says_what_to_install(start: Start) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    environment = {**environment_of(start.folder), "PATH": "/nowhere", "JAVA_HOME": ""}
    words = command_line("analyze", "--input", str(start.folder), "--output", str(start.folder / "out"))
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert done.returncode and "Java" in done.stderr and "Traceback" not in done.stderr, done
