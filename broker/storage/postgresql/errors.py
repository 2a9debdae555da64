"""The errors of a session with the server, by the outcome of its last transaction."""


class Unreachable(Exception):
    """The session is lost or was never made: whether its last transaction was committed is unknown."""


class Refused(Exception):
    """The server has rolled the transaction back, or refused the login. `sqlstate` may be empty."""

    def __init__(self, text: str, sqlstate: str = "") -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


class Fenced(Exception):
    """The transaction was rolled back after one of another owner, or another one with the same number."""
