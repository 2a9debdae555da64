"""What ends an attempt of a link."""

from __future__ import annotations


class LinkError(Exception):
    """In words that name no secret. `code` is the upstream's reply code, 0 where it is not the upstream that says so;
    `status` is what the link is shown as."""

    def __init__(self, text: str, code: int = 0, status: str = "error") -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.status = status
