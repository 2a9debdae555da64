"""A hook of mkdocs: the pages of the site are the documents where they are, README.md and SECURITY.md among them.

Each file has the path in the site that it has in the project, so that relative links lead to the same file in both.
"""

import re
from pathlib import Path
from urllib.parse import unquote

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Return the pages of the navigation and all that is linked from them, in place of the files of docs_dir."""
    assets = [file for file in files if Path(file.src_dir or "") != Path(config.docs_dir)]  # those of the theme
    found: dict[Path, File] = {}
    waiting = [ROOT / path for path in _paths(config.nav)]
    while waiting:
        path = waiting.pop().resolve()
        if path in found or not path.is_file():
            continue
        found[path] = File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path))
        if path.suffix == ".md":
            waiting += [path.parent / unquote(link) for link in LINK.findall(path.read_text(encoding="utf-8"))]
    return Files([*assets, *found.values()])


def _paths(nav: object) -> list[str]:
    """The paths in a navigation: a list of titles with a path, or with a list of their own."""
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ()
    return [path for entry in entries for path in _paths(entry)]
