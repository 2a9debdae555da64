"""What a peer sent, and what is said of it when a test fails."""

from typing import Any

from pamqp import base

from . import codec


class Silence(AssertionError):
    """Nothing came, and nothing is under way."""


class Closed(AssertionError):
    """The peer closed the connection, or the channel, where something else was expected."""


class Content:
    """A deliver, get-ok or return with its content."""

    def __init__(self, method: base.Frame) -> None:
        self.method: Any = method
        self.header = b""
        self.body = b""
        self.body_bytes = 0

    @property
    def property_bytes(self) -> bytes:
        return self.header[12:]

    @property
    def properties(self) -> Any:
        return codec.decode_properties(self.header)

    @property
    def headers(self) -> dict[str, Any]:
        return self.properties.headers or {}

    @property
    def tag(self) -> int:
        return int(self.method.delivery_tag)

    @property
    def redelivered(self) -> bool:
        return bool(self.method.redelivered)

    def __repr__(self) -> str:
        return f"{self.method.name}({dict(self.method)}, {self.body[:40]!r})"


def check_reply_text(closed: Any, code: int) -> None:
    assert closed.reply_code == code, f"expected {code}, got {closed.reply_code} {closed.reply_text}"
    name, dash, _ = closed.reply_text.partition(" - ")
    assert dash and name == name.upper(), f"reply text without the name in front: {closed.reply_text!r}"
    assert len(closed.reply_text.encode()) <= 255


def describe(item: Any) -> str:
    return f"{item.name} {dict(item)}" if isinstance(item, base.Frame) else repr(item)
