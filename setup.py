"""The build of Warren: pure Python, or with WARREN_COMPILE=1 its hot modules compiled by mypyc.

A compiled module is an extension beside its source. Without mypy or a C compiler the build is pure Python and says so.
"""

import atexit
import gzip
import os
import shutil
import sysconfig
import tarfile
import tempfile
import time
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from zlib import crc32

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import CCompilerError

BROKER = Path("warren/broker")
# The folders with compiled modules, and with constants that these inline
SOURCES = ("amqp", "core", "session", "storage", "wire")
# Each unit is a shared library: calls within it are direct, and units are compiled in parallel.
UNITS: dict[str, tuple[str, ...]] = {
    "amqp": ("field_table", "framing", "properties"),
    "wire": ("content_assembler", "frame_reader", "method_decoder", "method_encoder"),
    "core.messages": ("binding", "message", "message_state"),
    "core.counters": ("statistics",),
    "core.exchanges": ("exchange", "router"),
    "core.queues": (
        *("chunks", "consumers", "flow_control", "ledger", "per_message_enqueue", "queue", "queue_host"),
        *("queue_journal", "ready_messages", "requeued_messages", "route_target", "sorted_entries", "sorted_rows"),
    ),
    "storage": ("index", "log_records", "segment"),
    "session": (
        *("channel", "channel_host", "checked_properties", "confirms", "connection", "connection_limits", "consumer"),
        *("handshake", "prefetch", "settlements", "unacked"),
        *("methods/acknowledge", "methods/handlers", "methods/publish", "methods/special_properties"),
    ),
}
# The requirements of compiling, by module: mypyc, and the packages whose types the modules use.
COMPILING = {
    "mypy": "mypy>=2.4,<3",
    "msgspec": "msgspec>=0.19",
    "pamqp": "pamqp>=4,<5",
    "structlog": "structlog>=24.1",
    "regex-stubs": "types-regex>=2024.4.16",
}
OPTIMISATION = os.environ.get("WARREN_OPTIMISATION", "2")  # of the C compiler


class SourceArchive(sdist):
    """The archive of the sources, without tests. The same sources make the same bytes each time.

    The time of its files is SOURCE_DATE_EPOCH, or 1980-01-01; setuptools itself writes times and owners of a checkout.
    """

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, [file for file in files if not file.startswith("tests/")])

    def make_archive(self, base_name: str, format: str, *_: object, base_dir: str = "", **__: object) -> str:
        """Write a .tar.gz, whatever the format, and return its name."""
        seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))

        def neutral(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.mtime, member.mode = seconds, 0o755 if member.isdir() else 0o644
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            return member

        name = f"{base_name}.tar.gz"
        with (
            open(name, "wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=seconds) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(base_dir, filter=neutral)
        return name


def extensions() -> list[Extension]:
    """Translate the modules of all units to C, and return the extensions to compile; none if that is not possible."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        print(f"NOTE: there is no C compiler ({compiler}): Warren is built in pure Python")
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        print("NOTE: mypy is not installed: Warren is built in pure Python")
        return []
    units = []
    for unit, modules in UNITS.items():
        folder = BROKER / unit.replace(".", "/")
        units.append(([str(folder / f"{module}.py") for module in modules], f"warren.broker.{unit}.native"))
    paths = [path for unit_paths, _ in units for path in unit_paths]
    return mypycify(paths, separate=units, opt_level=OPTIMISATION, debug_level="0")


class BuildExtensions(build_ext):
    """Compiles the extensions, and writes the manifest by which `broker/compilation.py` knows changed sources."""

    def run(self) -> None:
        started_ns = time.time_ns()
        lines = []
        for folder in SOURCES:
            for path in sorted((BROKER / folder).rglob("*.py")):
                lines.append(f"{crc32(path.read_bytes())} {path.relative_to(BROKER).as_posix()}\n")
        manifest = Path(self.get_ext_fullpath("warren.broker.compiled")).with_suffix(".txt")
        manifest.unlink(missing_ok=True)
        expected = {Path(self.get_ext_fullpath(extension.name)).resolve() for extension in self.extensions}
        for path in manifest.parent.rglob(f"*{EXTENSION_SUFFIXES[0]}"):
            if path.resolve() not in expected:  # of a module that is not compiled any more
                path.unlink()
        try:
            super().run()
        except CCompilerError as error:
            print(f"NOTE: the C compiler failed: Warren is built in pure Python: {error}")
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            return
        if self.extensions:
            manifest.write_text("".join(lines), encoding="utf-8")
            os.utime(manifest, ns=(started_ns, started_ns))


compiling = os.environ.get("WARREN_COMPILE") == "1"
# Builders ask for these first and install them; a plain build needs none.
requirements = [requirement for module, requirement in COMPILING.items() if compiling and find_spec(module) is None]
folder = tempfile.mkdtemp(prefix="warren-build-")
atexit.register(shutil.rmtree, folder, ignore_errors=True)
setup(
    ext_modules=extensions() if compiling else [],
    cmdclass={"build_ext": BuildExtensions, "sdist": SourceArchive},
    setup_requires=requirements,
    # A build/ in the clone would keep modules that have been deleted, and the next build would install them again.
    options={"build": {"build_base": folder}},
)
