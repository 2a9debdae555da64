"""LinkError: the error that ends an attempt of a link."""

from __future__ import annotations

NOT_ALONE = "another broker may own the store of this one by now"


class LinkError(Exception):
    """A failure of a link, without secrets: `code` is the upstream's reply code or 0, `status` that of the link."""

    def __init__(self, text: str, code: int = 0, status: str = "error") -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.status = status

    def copy(self) -> LinkError:
        """Return an equal error without a traceback, to raise: that of an error which an object keeps makes a cycle."""
        return LinkError(self.text, self.code, self.status)
