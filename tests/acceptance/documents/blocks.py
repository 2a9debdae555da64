"""The blocks of code of a Markdown document, with the comments above them that say how they are run."""

import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from tests.support.checkout import ROOT

NOT_OURS = {".venv", "build", "node_modules", ".pytest_cache"}
COMMENT = re.compile(r"<!-- (not run|in the background|eventually|numbers vary|exit status)(?:: ([\w -]+))? -->\s*")
FILE_NAME = re.compile(r"(?:#|--|//) ([\w./-]+\.\w+)\n")


class BadBlock(Exception):
    """A block that cannot be run as it is written; the text says what to change, with document and line."""


@dataclass(frozen=True)
class Block:
    """A fenced block: `language`, `text`, the `line` of its fence, and the comments above it by name.

    `name` is the file that the first line names in a comment, such as `# conftest.py`; empty without one.
    """

    document: Path
    line: int
    language: str
    text: str
    comments: dict[str, str]

    @property
    def place(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"

    @property
    def name(self) -> str:
        name = FILE_NAME.match(self.text)
        return name[1] if name else ""


def documents() -> list[Path]:
    """All Markdown files of the project."""
    return sorted(path for path in ROOT.rglob("*.md") if not NOT_OURS & set(path.relative_to(ROOT).parts))


def blocks_of(document: Path) -> list[Block]:
    """The blocks of a document in their order. Raises BadBlock for indented ones, and for comments with no meaning."""
    blocks: list[Block] = []
    comments: dict[str, str] = {}
    for token in MarkdownIt("commonmark").parse(document.read_text(encoding="utf-8")):
        line = token.map[0] + 1 if token.map else 0
        where = f"{document.relative_to(ROOT)}:{line}"
        if token.type == "code_block":
            raise BadBlock(f"{where}: put this block between fences (```) with a language, instead of indenting it")
        if token.type == "html_block" and token.content.startswith("<!--"):
            found = COMMENT.fullmatch(token.content)
            if found is None:
                raise BadBlock(f"{where}: {token.content.strip()} is none of the comments that CONTRIBUTING.md lists")
            comments[found[1]] = found[2] or ""
        elif token.type == "fence":
            if not token.info:
                raise BadBlock(f"{where}: name the language of this block; a picture or an excerpt is `text`")
            blocks.append(Block(document, line, token.info.split()[0], token.content, comments))
            comments = {}
        elif comments:
            raise BadBlock(f"{where}: the comment before this line belongs directly above a block")
    return blocks
