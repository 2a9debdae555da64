"""The packages have the whole tree: the wheel, its entry points, its dependencies."""

import ast
import email
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.support.broker_process import run
from tests.support.checkout import ROOT, write_distribution
from tests.support.wheel import PACKAGES, build_wheel, install_wheel
from tools.distribution import audit, lock, release, sbom
from tools.distribution.contents import (
    LICENSES,
    NAME,
    PROJECT,
    archive_files,
    differences,
    expected_archive,
    expected_wheel,
    modules,
    wheel_files,
)
from tools.distribution.installed import check_installed

# Where a distribution is not called what is imported
IMPORTED_AS = {
    "aio-pika": "aio_pika",
    "argon2-cffi": "argon2",
    "mypy-extensions": "mypy_extensions",
    "prometheus-client": "prometheus_client",
}
LOADERS = {"pytest"}  # imported only by the module of ours that they load


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[;>=]", requirement)[0].strip() for requirement in requirements}


def test_every_third_party_import_is_a_declared_dependency_and_the_other_way_round() -> None:
    imported = set()
    for path in modules():
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").partition(".")[0])
    declared = names(PROJECT["dependencies"])
    for extra in ("analytics", "postgresql"):
        declared |= names(PROJECT["optional-dependencies"][extra])
    needed = {IMPORTED_AS.get(name, name) for name in declared}
    assert imported - set(sys.stdlib_module_names) - {"warren", *LOADERS} == needed


def test_the_build_brings_all_third_party_modules_that_compiled_modules_import_by_way_of_others() -> None:
    """The compiler reads their types; an environment that only builds lacks the dependencies of the broker."""
    assignments = {
        node.targets[0].id if isinstance(node, ast.Assign) else node.target.id: ast.unparse(node.value)
        for node in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        or isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.value
    }
    units, brought = eval(assignments["UNITS"]), eval(assignments["COMPILING"])
    left = [f"warren.broker.{unit}.{name.replace('/', '.')}" for unit, named in units.items() for name in named]
    read, third = set(), set[str]()
    while left:
        module = left.pop()
        path = ROOT / module.replace(".", "/")
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if module in read or not path.is_file():  # a name in a module
            continue
        read.add(module)
        left.append(module.rpartition(".")[0])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                above = module.split(".")[: -node.level + (path.name == "__init__.py") or None] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                imported = [base, *(f"{base}.{alias.name}" for alias in node.names)]
            left += [name for name in imported if name.startswith("warren.")]
            third |= {name.partition(".")[0] for name in imported} - {"warren"} - sys.stdlib_module_names
    assert len(read) > 100
    needed = {f"{name}-stubs" if f"{name}-stubs" in brought else name for name in third} - {"mypy_extensions"}
    assert needed | {"mypy"} == brought.keys(), "mypy itself brings mypy_extensions"


@pytest.mark.parametrize("extra", ["", "analytics", "postgresql", "test"])
def test_the_image_and_the_tests_install_versions_that_are_supported_and_only_files_of_known_hashes(extra: str) -> None:
    entries = lock.requirements(ROOT / "docker" / f"requirements{extra and '-' + extra}.txt").values()
    pinned = dict(entry.split()[0].split("==") for entry in entries)
    assert all("--hash=sha256:" in entry for entry in entries)
    needed = PROJECT["dependencies"] + (PROJECT["optional-dependencies"][extra] if extra else [])
    for requirement in map(Requirement, needed):
        if requirement.name == PROJECT["name"]:
            continue
        version = pinned.get(canonicalize_name(requirement.name), "")
        assert version and version in requirement.specifier, f"{requirement}: make lock"


def test_the_newest_change_is_that_of_this_version() -> None:
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines() if line[:3] == "## "]
    assert headings[0].split()[1] == PROJECT["version"]


def test_the_notes_of_a_release_are_those_of_its_version() -> None:
    changes = "# Changes\n\nBy release.\n\n## 0.3.0, soon\n\n### Queues\n\n- new\n\n## 0.2.0\n\n- old\n"
    assert release.notes(changes, "0.3.0") == "# Warren 0.3.0, soon\n\n### Queues\n\n- new\n"
    for text, version in ((changes, "0.2.0"), (changes, "0.3"), ("", "0.3.0")):
        with pytest.raises(release.NotReleased):
            release.notes(text, version)


def test_the_sums_of_a_release_are_signed_and_name_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("gpg") is None:
        pytest.skip("gpg is not installed")
    (keys := tmp_path / "keys").mkdir(0o700)
    (folder := tmp_path / "dist").mkdir()
    monkeypatch.setenv("GNUPGHOME", str(keys))
    for name in ("b.whl", "a.tar.gz"):
        (folder / name).write_text(name)
    with pytest.raises(release.NotReleased, match="the key nobody"):
        release.sign(release.write_sums(folder), "nobody")
    subprocess.run(
        ["gpg", "--batch", "--passphrase", "", "--quick-generate-key", "release@example", "ed25519"],
        check=True, capture_output=True,
    )  # fmt: skip
    try:
        release.sign(release.write_sums(folder), "release@example")
        checked = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=folder, capture_output=True, text=True)
        assert checked.stdout == "a.tar.gz: OK\nb.whl: OK\n" and not checked.returncode
        (folder / "SHA256SUMS").write_text("other")
        verifying = ["gpg", "--batch", "--verify", folder / "SHA256SUMS.asc", folder / "SHA256SUMS"]
        assert subprocess.run(verifying, capture_output=True, check=False).returncode == 1
    finally:
        subprocess.run(["gpgconf", "--kill", "all"], check=False, capture_output=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the source archive, which is in the same folder."""
    return build_wheel(tmp_path_factory.mktemp("dist"))


def test_the_archive_and_the_wheel_hold_what_belongs_there_and_nothing_else(wheel: Path) -> None:
    (archive,) = wheel.parent.glob("*.tar.gz")
    assert differences(archive_files(archive), expected_archive()) == []
    assert differences(wheel_files(wheel), expected_wheel()) == []


def test_the_same_sources_make_the_same_archive_and_wheel(wheel: Path, tmp_path: Path) -> None:
    assert build_wheel(tmp_path).read_bytes() == wheel.read_bytes()
    assert next(tmp_path.glob("*.tar.gz")).read_bytes() == next(wheel.parent.glob("*.tar.gz")).read_bytes()


def test_the_metadata_of_the_wheel_are_complete(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        folder = f"{NAME}.dist-info"
        metadata = email.message_from_bytes(archive.read(f"{folder}/METADATA"))
        commands = archive.read(f"{folder}/entry_points.txt").decode()
        assert f"Tag: {wheel.stem.split('-', 2)[2]}" in archive.read(f"{folder}/WHEEL").decode()
    assert (metadata["Name"], metadata["Version"]) == (PROJECT["name"], PROJECT["version"])
    assert metadata["License-Expression"] == "Apache-2.0" and set(metadata.get_all("License-File", [])) == LICENSES
    assert SpecifierSet(metadata["Requires-Python"]) == SpecifierSet(PROJECT["requires-python"])
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    assert metadata.get_all("Classifier") == PROJECT["classifiers"]
    assert all(f"{name} = {target}" in commands for name, target in PROJECT["scripts"].items())
    assert metadata.get_all("Project-URL") is None  # there is no public address yet


@pytest.mark.sockets
def test_an_installed_wheel_serves_clients(wheel: Path, tmp_path: Path) -> None:
    commands = install_wheel(wheel, tmp_path / "venv")
    assert len(list(check_installed(commands, tmp_path / "broker"))) == 6


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """A folder with an application that has packages of the same names as our folders, which cannot be imported."""
    for package in PACKAGES:
        (tmp_path / "application" / package).mkdir(parents=True)
        (tmp_path / "application" / package / "__init__.py").write_text("raise ImportError('the application')\n")
    return tmp_path / "application"


def test_packages_of_an_application_may_have_the_names_of_our_folders(application: Path, tmp_path: Path) -> None:
    paths = (application, write_distribution(tmp_path / "installed"), ROOT)
    ran = run("plugins", folder=application, paths=paths)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert all(f"{name}\t" in ran.stdout for name in PROJECT["entry-points"]["warren.exchange_types"])


def test_nothing_of_ours_is_imported_by_the_name_of_a_folder() -> None:
    pattern = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(PACKAGES)})\b", re.MULTILINE)
    sources = [*modules(), *(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py"))]
    assert [path for path in sources if pattern.search((ROOT / path).read_text(encoding="utf-8"))] == []


def test_the_bill_of_materials_is_made_of_each_locked_requirement_and_the_charts(tmp_path: Path) -> None:
    wanted = sbom.pins(sbom.locked_requirements())
    names = {name for name, _ in wanted}
    assert {canonicalize_name(Requirement(each).name) for each in PROJECT["dependencies"]} < names
    assert {"pyspark", "psycopg"} < names
    assert (sbom.charts_component()["name"], sbom.charts_component()["version"]) == ("uplot", "1.6.32")
    bill = tmp_path / "bill.json"
    bill.write_text(json.dumps({"components": [{"name": name, "version": version} for name, version in wanted]}))
    assert sbom.components(bill) == wanted


def test_an_audit_that_looked_nothing_up_is_no_success() -> None:
    known = {"name": "h11", "version": "0.16.0", "vulns": []}
    skipped = {"name": "pamqp", "skip_reason": "not found"}
    found = {"name": "yarl", "version": "1.9", "vulns": [{"id": "CVE-1", "fix_versions": []}]}
    assert audit.verdict([known, known], 2) == (0, ["2 requirements audited, no known vulnerabilities"])
    for report in ([], [skipped, skipped], [known, skipped]):
        status, (line,) = audit.verdict(report, 2)
        assert status == audit.UNAVAILABLE and line.startswith("NOT AUDITED")
    assert audit.verdict([known, found], 2) == (1, ["yarl 1.9: CVE-1, fixed in no version"])
