"""The errors of a session with the server, by what they say of its last transaction."""

from __future__ import annotations


class Unreachable(Exception):
    """No session, or one that was lost: whether its last transaction was committed is unknown."""


class Refused(Exception):
    """The server has rolled the transaction back, or not accepted the login. `sqlstate` is empty if it gave none."""

    def __init__(self, text: str, sqlstate: str = "") -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


class Fenced(Exception):
    """The transaction was rolled back, as another owner, or another transaction of the same number, came before it."""
