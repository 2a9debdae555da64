"""PostgreSQL servers of the tests: clusters in temporary folders, on loopback, that end with the test."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psycopg

from .broker_process import run
from .polling import until
from .ports import ReservedPort

DEBIAN = Path("/usr/lib/postgresql")
PROGRAM_WITHIN_S = 120.0
UNPRIVILEGED = ("postgres", "nobody")  # PostgreSQL does not run as root
OWNER = "postgres"  # the superuser of each cluster
# For tests that lose no server: the files of a cluster need not survive the machine.
CARELESS = ("fsync=off", "full_page_writes=off")
SETTINGS = ("wal_level=replica", "max_wal_senders=5", "max_connections=60", "shared_buffers=16MB", "max_wal_size=256MB")


@cache
def programs() -> Path | None:
    """The folder with the programs of the newest PostgreSQL that is installed, or None."""
    found = [path.parent for path in DEBIAN.glob("*/bin/initdb")]
    if not found and (initdb := shutil.which("initdb")):
        found = [Path(initdb).parent]
    return max(found, key=lambda path: float(path.parent.name) if path.parent.name.isdigit() else 0, default=None)


def missing() -> str:
    """Return the reason why no server can be started here, or an empty text."""
    if programs() is None:
        return "no PostgreSQL is installed (Debian: apt-get install postgresql)"
    return "" if unprivileged() is not None else "no user to run PostgreSQL as"


@cache
def unprivileged() -> pwd.struct_passwd | None:
    """The user that runs the servers: this one, unless it is root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    for name in UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


class Cluster:
    """One server: `port` on 127.0.0.1, its data in a folder of its own below `folder`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.data = folder / name
        self._reserved = ReservedPort()
        self.port = self._reserved.number
        self.running = False
        self._settings: tuple[str, ...] = ()

    def create(self, *settings: str) -> None:
        """Create and start it."""
        self._settings = (*SETTINGS, *settings)
        self._run("initdb", "-D", str(self.data), "-U", OWNER, "-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale")
        self.start()

    def follow(self, primary: Cluster, *settings: str) -> None:
        """Create and start it as a standby of another, by which it is known under its name."""
        self._settings = (*SETTINGS, *settings)
        source = f"host=127.0.0.1 port={primary.port} user={OWNER} application_name={self.name}"
        self._run("pg_basebackup", "-d", source, "-D", str(self.data), "-X", "stream", "-c", "fast", "--no-sync")
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.write(f"primary_conninfo = '{source}'\n")
        (self.data / "standby.signal").touch()
        self.start()

    def start(self) -> None:
        given = [f"port={self.port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}"]
        options = " ".join(f"-c {setting}" for setting in (*given, *self._settings))
        log = str(self.folder / f"{self.name}.log")
        self._run("pg_ctl", "-D", str(self.data), "-l", log, "-o", options, "-w", "-t", "60", "start")
        self.running = True

    def stop(self, mode: str = "immediate") -> None:
        """Stop it: `immediate` is a crash of the server."""
        if self.running:
            self.running = False
            self._run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "stop")

    def close(self) -> None:
        """Stop it for good."""
        self.stop()
        self._reserved.close()

    def promote(self) -> None:
        self._run("pg_ctl", "-D", str(self.data), "-w", "promote")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes: SIGSTOP makes it silent, SIGCONT lets it go on."""
        postmaster = int((self.data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        for pid in (postmaster, *map(int, children)):
            os.kill(pid, number)

    def execute(self, text: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Execute a statement as superuser, and return its rows."""
        with psycopg.connect(self.conninfo(database), autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description is not None else []

    def conninfo(self, database: str = "postgres") -> str:
        return f"host=127.0.0.1 port={self.port} user={OWNER} dbname={database}"

    def url(self, *others: Cluster, user: str = OWNER, database: str = "postgres") -> str:
        """The URL of this server, and of others to try after it."""
        hosts = ",".join(f"127.0.0.1:{cluster.port}" for cluster in (self, *others))
        return f"postgresql://{user}@{hosts}/{database}"

    def set(self, setting: str, value: str) -> None:
        """Change a setting of the running server."""
        self.execute(f"ALTER SYSTEM SET {setting} = {value}")
        self.execute("SELECT pg_reload_conf()")

    def wait_for_standby(self, name: str, state: str = "sync") -> None:
        text = f"SELECT 1 FROM pg_stat_replication WHERE application_name = '{name}' AND sync_state = '{state}'"
        until(lambda: self.execute(text), f"standby {name} as {state}")

    def _run(self, program: str, *arguments: str) -> None:
        folder, user = programs(), unprivileged()
        assert folder is not None and user is not None
        line = [str(folder / program), *arguments]
        if os.geteuid() == 0:
            identity = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
            line = ["setpriv", *identity, *line]
        environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
        done = subprocess.run(
            line, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=PROGRAM_WITHIN_S,
        )  # fmt: skip
        if done.returncode:
            log = self.folder / f"{self.name}.log"
            raise AssertionError(f"{program}: {done.stdout}\n{log.read_text() if log.exists() else ''}")


def init(url: str) -> str:
    """Create the tables of a store, and return its URL."""
    done = run("store", "init", url)
    assert done.returncode == 0, done.stderr
    return url


@contextmanager
def cluster_folder() -> Iterator[Path]:
    """Context with a folder that the user of the servers may use; a short path, for their sockets."""
    folder = Path(tempfile.mkdtemp(prefix="warren-pg-"))
    user = unprivileged()
    assert user is not None
    os.chown(folder, user.pw_uid, user.pw_gid)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def cluster(*settings: str) -> Iterator[Cluster]:
    """Context with one running server."""
    with cluster_folder() as folder:
        server = Cluster(folder, "primary")
        try:
            server.create(*settings)
            yield server
        finally:
            server.close()


@contextmanager
def replicated(synchronous: bool = True) -> Iterator[tuple[Cluster, Cluster]]:
    """Context with a primary and a standby, which is synchronous or not."""
    with cluster_folder() as folder:
        primary, standby = Cluster(folder, "primary"), Cluster(folder, "standby")
        try:
            primary.create()
            standby.follow(primary)
            if synchronous:
                primary.set("synchronous_standby_names", "'standby'")
            primary.wait_for_standby("standby", "sync" if synchronous else "async")
            yield primary, standby
        finally:
            for server in (standby, primary):
                server.close()
