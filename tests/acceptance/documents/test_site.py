"""The site: it is built from the documents, a broken link fails, and a page loads nothing from another host."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.checkout import ROOT

from .blocks import documents

SITE = ROOT / "docs/site"
# What a page loads, by itself: scripts, style sheets, pictures, fonts. A link that a reader follows is none of these.
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?([^\"\s>]+)|<link\b(?![^>]*canonical)[^>]*\bhref=\"?([^\"\s>]+)"
)
STYLED = re.compile(r"(?:url\(|@import )[\"']?(https?:[^\"')]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--config-file", SITE / "mkdocs.yml", "--site-dir", folder],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_site_has_every_document_that_the_pages_link(site: Path) -> None:
    pages = {page.relative_to(site).as_posix() for page in site.rglob("*.html")}
    assert {"index.html", "SECURITY.html", "docs/start.html", "docs/topologies.html", "docker/README.html"} <= {
        page.replace("docker/index", "docker/README") for page in pages
    }
    assert (site / "search/search_index.json").stat().st_size > 100_000


def test_every_page_of_docs_is_in_the_navigation() -> None:
    text = (SITE / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r": (\S+\.md)$", text, re.MULTILINE))
    assert yaml.safe_load(text)["strict"] is True
    assert {path.relative_to(ROOT).as_posix() for path in documents() if path.parent == ROOT / "docs"} <= named


def test_a_page_loads_nothing_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = ["".join(found) for found in LOADED.findall(page.read_text(encoding="utf-8"))]
        assert loaded and [url for url in loaded if url.startswith(("http:", "https:", "//"))] == [], page
    for style in site.rglob("*.css"):
        assert STYLED.findall(style.read_text(encoding="utf-8")) == [], style


def test_a_broken_link_fails(tmp_path: Path) -> None:
    copy = tmp_path / "docs/site"
    copy.mkdir(parents=True)
    (copy / "pages.py").write_bytes((SITE / "pages.py").read_bytes())
    (copy / "mkdocs.yml").write_text(
        "site_name: x\ndocs_dir: ..\nsite_dir: ../../build\nstrict: true\nhooks: [pages.py]\nplugins: []\n"
        "validation: {links: {not_found: warn, anchors: warn}}\nnav: [README.md]\n"
    )
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(copy / "mkdocs.yml")]
    for text, status in (
        ("# Here\n\n[there](#here)\n", 0),
        ("[there](missing.md)\n", 1),
        ("# Here\n\n[there](#gone)\n", 1),
    ):
        (tmp_path / "README.md").write_text(text)
        assert subprocess.run(command, capture_output=True, check=False).returncode == status, text
