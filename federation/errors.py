"""The error that ends an attempt of a link."""

from __future__ import annotations


class LinkError(Exception):
    """A failure of a link or of its connection, with a text without secrets.

    `code` is the upstream's AMQP reply code, or 0 if the error is not the upstream's; `status` is the link's status.
    """

    def __init__(self, text: str, code: int = 0, status: str = "error") -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.status = status
