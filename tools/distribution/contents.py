"""The contents of the source archive and of the wheels: each module, and each other file by name."""

import tarfile
import tomllib
import zipfile
from pathlib import Path

from tests.support.checkout import ROOT
from tests.support.wheel import PACKAGES

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME = f"{PROJECT['name']}-{PROJECT['version']}"
UI, WEB = "warren/plugins/management/ui", "warren/plugins/web"
OTHERS = {
    "warren/broker/system/warren.service",
    "warren/py.typed",
    "warren/plugins/message_log/analysis/page/page.css",
    "warren/plugins/message_log/analysis/page/drawings.js",
    "warren/plugins/message_log/analysis/page/report.js",
    "warren/plugins/message_log/analysis/report.schema.json",
    "warren/plugins/message_log/analysis/log4j2.properties",
}
PAGES = ("warren.1", "warren.conf.5", "warrenctl.8")
LICENSES = {"LICENSE", f"{WEB}/LICENSE.uPlot"}
METADATA = {
    "METADATA",
    "RECORD",
    "WHEEL",
    "entry_points.txt",
    "top_level.txt",
    *(f"licenses/{name}" for name in LICENSES),
}
BUILD = {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg", "setup.py"}
EGG_INFO = {"PKG-INFO", "SOURCES.txt", "dependency_links.txt", "entry_points.txt", "requires.txt", "top_level.txt"}


def modules() -> set[str]:
    """The modules of this checkout, relative to its root."""
    return {path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")}


def package_files() -> set[str]:
    """The files of the package `warren`: modules, the user interface, and few others."""
    folders = [ROOT / folder.removeprefix("warren/") for folder in (UI, WEB)]
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    ui = {f"warren/{path.relative_to(ROOT).as_posix()}" for path in paths}
    own = {path.relative_to(ROOT).as_posix() for path in (ROOT / "warren" / "testing").rglob("*.py")}
    return {"warren/__init__.py", *own, *(f"warren/{module}" for module in modules()), *ui, *OTHERS}


def documents() -> set[str]:
    """The documents and their drawings, relative to the root."""
    folder = ROOT / "docs"
    return {path.relative_to(ROOT).as_posix() for path in (*folder.glob("*.md"), *folder.glob("images/*.svg"))}


def expected_archive() -> set[str]:
    files = {*package_files(), *BUILD, *(f"warrenmq.egg-info/{name}" for name in EGG_INFO)}
    files |= {f"warren/broker/system/man/{page}" for page in PAGES} | documents()
    return {f"{NAME}/{name}" for name in files}


def expected_wheel() -> set[str]:
    files = package_files() | {f"{NAME}.dist-info/{name}" for name in METADATA}
    shared = f"{NAME}.data/data/share"
    files |= {f"{shared}/doc/warrenmq/{path.removeprefix('docs/')}" for path in documents()}
    return files | {f"{shared}/man/man{page[-1]}/{page}" for page in PAGES}


def archive_files(archive: Path) -> set[str]:
    with tarfile.open(archive) as opened:
        return {member.name for member in opened if member.isfile()}


def wheel_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as opened:
        return {name for name in opened.namelist() if not name.endswith("/")}


def extension_modules(wheel: Path) -> list[str]:
    """Return the names of the compiled modules of a wheel; none for one in pure Python."""
    return sorted(name.split(".")[0].replace("/", ".") for name in wheel_files(wheel) if name.endswith(".so"))


def differences(files: set[str], expected: set[str]) -> list[str]:
    """Return a line for each file that is missing or unexpected; extensions and their list are a compiled wheel's."""
    extra = [name for name in files - expected if not name.endswith(".so") and "/compiled." not in name]
    return [f"missing: {name}" for name in sorted(expected - files)] + [f"unexpected: {name}" for name in sorted(extra)]
