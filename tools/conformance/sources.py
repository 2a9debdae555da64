"""Downloads of sources, pinned by their digest or their commit."""

import hashlib
import tarfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from .suite import Unavailable, bring, needed

DOWNLOAD_TIMEOUT_S = 60


def download(urls: Sequence[str], sha256: str, target: Path) -> Path:
    """Download the first of these files that is available and has the digest. Raises Unavailable."""
    reasons = []
    for url in urls:
        try:
            with urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_S) as answer:
                data: bytes = answer.read()
        except OSError as error:
            reasons.append(f"{url}: {error}")
            continue
        if hashlib.sha256(data).hexdigest() == sha256:
            target.write_bytes(data)
            return target
        reasons.append(f"{url}: not the file that was pinned")
    raise Unavailable("; ".join(reasons))


def debian(path: str) -> list[str]:
    """Return the URLs of an original source of Debian: its pool, and snapshots for older versions."""
    return [
        f"https://deb.debian.org/debian/pool/main/{path}",
        f"http://deb.debian.org/debian/pool/main/{path}",
        f"https://snapshot.debian.org/archive/debian/20251101T000000Z/pool/main/{path}",
    ]


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the archive without its top folder."""
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4 or newer
            tar.extraction_filter = tarfile.data_filter
        tar.extractall(archive.parent / "unpacked")
    next((archive.parent / "unpacked").iterdir()).rename(folder)


def checkout(repository: str, commit: str, folder: Path) -> None:
    """Fetch one commit of a repository into the folder. Raises Unavailable.

    git's own settings (`url.BASE.insteadOf`) can name a mirror.
    """
    git = needed("git", "git")
    bring([git, "init", "--quiet", folder], folder.parent)
    bring([git, "fetch", "--quiet", "--depth=1", repository, commit], folder)
    bring([git, "-c", "advice.detachedHead=false", "checkout", "--quiet", commit], folder)
