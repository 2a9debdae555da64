"""Makes a release in `dist/`: what `make dist` builds, for each Python that is found, the image, notes and signed sums.

    python -m tools.distribution.release --key KEY [--no-image] [--build-arg NAME=VALUE ...]

The tree must be the commit, whose version CHANGELOG.md has first. `SHA256SUMS` names every file, for
`sha256sum --check`; `SHA256SUMS.asc` is its signature by the key of gpg with this name. What cannot be made here, such
as a compiled wheel for a Python that is not installed, is said, and left out. Nothing is uploaded.
"""

import argparse
import hashlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.checkout import ROOT

from . import sbom
from .build import DIST, build, check_files, run
from .check import VERSIONS, interpreters
from .contents import PROJECT

SUMS, NOTES = "SHA256SUMS", "NOTES.md"
IMAGE_WITHIN_S = 3600.0


class NotReleased(Exception):
    """The tree or this machine cannot make a release; the text says why, in one line."""


def notes(changes: str, version: str) -> str:
    """Return what CHANGELOG.md says of its newest version, which must be this one. Raises NotReleased."""
    _, _, newest = changes.partition("\n## ")
    title, _, text = newest.partition("\n")
    if title.partition(",")[0].strip() != version:
        raise NotReleased(f"CHANGELOG.md begins with {title or 'no version'}, and pyproject.toml has {version}")
    return f"# Warren {title}\n{text.partition(chr(10) + '## ')[0].rstrip()}\n"


def check_tree(version: str) -> None:
    """Raise NotReleased unless the tree is a commit, and the one that the tag of this version names, if it exists."""
    changed = git("status", "--porcelain", "--untracked-files=no")
    if changed:
        raise NotReleased(f"the tree differs from its commit: {changed.splitlines()[0].strip()}")
    tagged = git("tag", "--list", f"v{version}") and git("rev-list", "-n", "1", f"v{version}")
    if not tagged:
        print(f"NOTE: there is no tag v{version} yet")
    elif tagged != git("rev-parse", "HEAD"):
        raise NotReleased(f"the tag v{version} is another commit: check it out, or raise the version")


def git(*words: str) -> str:
    return subprocess.check_output(["git", *words], cwd=ROOT, text=True).strip()


def pythons() -> list[str]:
    """Return one interpreter of each version that Warren supports, and print which are not here."""
    found: dict[str, str] = {}
    for version, python in interpreters().items():
        found.setdefault(".".join(version.split(".")[:2]), python)
    for version in VERSIONS:
        if version not in found:
            print(f"NOTE: Python {version} is not installed, so there is no compiled wheel for it; the pure one fits")
    return list(found.values())


def save_image(version: str, arguments: Sequence[str]) -> None:
    """Build the image with these build arguments, and save it for `docker load`. Raises CalledProcessError."""
    name, file = f"warren:{version}", DIST / f"warren-{version}-image.tar"
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "version"], capture_output=True, check=False).returncode:
        print("NOTE: no engine of Docker answers, so there is no image")
        return
    given = [word for argument in arguments for word in ("--build-arg", argument)]
    run(docker, "build", "--quiet", "--file", "docker/Dockerfile", "--tag", name, *given, ".")
    run(docker, "save", "--output", file, name)
    file.chmod(0o644)  # docker lets only its user read it
    run("gzip", "--no-name", file)


def write_sums(folder: Path) -> Path:
    """Write the SHA-256 of every file of a folder, as `sha256sum --check` reads it; return the path."""
    lines = []
    for path in sorted(folder.iterdir()):
        if not path.name.startswith(SUMS):
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    sums = folder / SUMS
    sums.write_text("".join(lines), encoding="utf-8")
    return sums


def sign(file: Path, key: str) -> None:
    """Write the signature of a file beside it, and verify it. Raises NotReleased."""
    signature = file.with_name(f"{file.name}.asc")
    signing = ["gpg", "--batch", "--yes", "--local-user", key, "--armor", "--output", signature, "--detach-sign", file]
    for command in (signing, ["gpg", "--batch", "--verify", signature, file]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise NotReleased("gpg is not installed (Debian: apt-get install gnupg)") from None
        if done.returncode:
            raise NotReleased(f"gpg cannot sign with the key {key}: {done.stderr.strip().splitlines()[-1]}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools.distribution.release")
    parser.add_argument("--key", required=True, help="the key of gpg that signs the sums")
    parser.add_argument("--no-image", action="store_true", help="leave out the image")
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE", help="for that of the image")
    options = parser.parse_args()
    version = str(PROJECT["version"])
    try:
        text = notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
        check_tree(version)
        if not check_files(build(pythons())):
            raise NotReleased("an archive or wheel lacks files or has too many: see above")
        sbom.write(DIST / "warrenmq.cdx.json")
        if not options.no_image:
            save_image(version, options.build_arg)
        (DIST / NOTES).write_text(text, encoding="utf-8")
        sign(write_sums(DIST), options.key)
    except NotReleased as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"release: this failed, as it says above: {shlex.join(map(str, error.cmd))}", file=sys.stderr)
        return 1
    print(f"Warren {version} is in {DIST.relative_to(ROOT)}/; `make dist-check` tries its wheels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
