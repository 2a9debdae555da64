"""The stored inputs of a target: a file with one line of base64 for each."""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).with_name("corpora")


def stored(target: str) -> list[bytes]:
    path = FOLDER / f"{target}.txt"
    return [b64decode(line) for line in path.read_text().splitlines()] if path.exists() else []


def store(target: str, inputs: Iterable[bytes]) -> None:
    """Write the inputs, sorted, in place of those that were stored."""
    lines = [b64encode(data).decode() for data in sorted(inputs, key=lambda data: (len(data), data))]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{target}.txt").write_text("".join(f"{line}\n" for line in lines))
