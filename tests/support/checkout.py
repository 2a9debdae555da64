"""A distribution that says what is in this checkout, for processes that are to find its plugins by entry point.

Whether, and as of when, the checkout is installed in the environment of the tests does not matter then.
"""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def installed(folder: Path) -> Path:
    """Made in this folder; to be put in front of PYTHONPATH, with ROOT behind it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = folder / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *[f"{name} = {value}" for name, value in entries.items()]]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
