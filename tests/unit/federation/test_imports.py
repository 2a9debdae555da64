"""Only one file of federation uses the AMQP client library."""

import ast
from pathlib import Path

import warren.federation

CLIENT_LIBRARIES = {"aio_pika", "aiormq", "pamqp", "yarl"}


def test_only_the_handshake_imports_the_client_library() -> None:
    folder = Path(warren.federation.__file__).parent
    importing = {path.name for path in folder.rglob("*.py") if imported_packages(path) & CLIENT_LIBRARIES}
    assert importing == {"handshake.py"}


def imported_packages(path: Path) -> set[str]:
    """The top-level packages that a file imports, type-only imports included."""
    packages: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            packages.add(node.module.partition(".")[0])
    return packages
