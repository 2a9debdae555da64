"""Files of pages in a browser: elements, formats, charts, tables, styles. The management UI and reports share them."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent
STYLES = (FOLDER / "uPlot.min.css", FOLDER / "style.css")
UPLOT = FOLDER / "uPlot.iife.min.js"
IMPORT = re.compile(r'^import (?:\* as (\w+)|(\{[^}]*\})) from "([^"]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?(?:const|class|function) (\w+))", re.MULTILINE)


def files() -> list[Path]:
    """Return the files that a server of pages sends."""
    return [path for path in FOLDER.iterdir() if path.suffix in (".js", ".css")]


def bundle(module: Path) -> str:
    """Return a module of JavaScript and all that it imports as one script, for a page that is one file.

    Each module becomes a function that returns its exports, as names of different modules may be the same.
    """
    functions: dict[Path, str] = {}

    def add(path: Path) -> None:
        text = path.read_text("utf-8")
        for *_, imported in IMPORT.findall(text):
            if (target := (path.parent / imported).resolve()) not in functions:
                add(target)

        def constant(match: re.Match[str]) -> str:
            whole, names, imported = match.groups()
            return f"const {whole or names} = {variable((path.parent / imported).resolve())};"

        exports = ", ".join(name for _, name in EXPORT.findall(text))
        body = EXPORT.sub(r"\1", IMPORT.sub(constant, text))
        functions[path] = f"const {variable(path)} = (() => {{\n{body}return {{ {exports} }};\n}})();\n"

    add(module.resolve())
    return '"use strict";\n' + "".join(functions.values())


def variable(path: Path) -> str:
    """Return the name of the variable with the exports of a module."""
    return f"{path.stem}_module"
