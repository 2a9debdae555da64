"""Every key of the configuration is followed: its value is read somewhere outside of the configuration."""

import ast
from functools import cache

from tests.support.checkout import ROOT
from warren.broker.config.keys import KEYS


@cache
def attributes_read() -> set[str]:
    """Return the names of all attributes that the broker (without its configuration), federation and plugins read."""
    paths = [path for package in ("broker", "federation", "plugins") for path in (ROOT / package).rglob("*.py")]
    paths = [path for path in paths if ROOT / "broker/config" not in path.parents]
    paths.append(ROOT / "broker/config/config.py")  # its properties read other fields
    return {
        node.attr
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def test_every_key_has_a_reader() -> None:
    fields = {key.field for key in KEYS if key.field}
    unread = {field for field in fields if not set(field.split(".")) <= attributes_read()}
    assert not unread, f"accepted and followed by nobody: {sorted(unread)}"
