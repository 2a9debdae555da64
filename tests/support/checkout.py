"""The checkout under test, and its metadata as an installed distribution has it, by which processes find its plugins.

They find those of the checkout then, also where another version, or none, is installed in the environment of the tests.
"""

import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def write_distribution(folder: Path) -> Path:
    """Write the metadata into this folder and return it; PYTHONPATH must have it in front, and ROOT behind it."""
    name, version, entry_points = _project()
    metadata = folder / f"{name}-{version}.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    return folder


@cache
def _project() -> tuple[str, str, str]:
    """Name, version and entry points of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *[f"{name} = {value}" for name, value in entries.items()]]
    return project["name"], project["version"], "\n".join(lines) + "\n"
