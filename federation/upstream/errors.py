"""LinkError: the error that ends an attempt of a link."""

from __future__ import annotations

NOT_ALONE = "another broker may own the store of this one by now"


class LinkError(Exception):
    """A failure of a link or of its connection; the text has no secrets.

    `code` is the upstream's AMQP reply code, or 0 if the upstream did not report the error; `status` is the link's.
    """

    def __init__(self, text: str, code: int = 0, status: str = "error") -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.status = status

    def copy(self) -> LinkError:
        """Return an equal error without a traceback, to raise: that of an error which an object keeps makes a cycle."""
        return LinkError(self.text, self.code, self.status)
