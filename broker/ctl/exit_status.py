"""What ends a command otherwise than well."""

USAGE_STATUS = 64  # EX_USAGE
DATA_STATUS = 65  # EX_DATAERR
UNAVAILABLE_STATUS = 69  # EX_UNAVAILABLE: the node cannot be reached or refuses
SOFTWARE_STATUS = 70  # EX_SOFTWARE
TIMEOUT_STATUS = 75  # EX_TEMPFAIL


class Unreachable(Exception):
    """There is no node there, or not any more; the text is one line."""


class Failed(Exception):
    """Ends the command with that status; the text is for the standard error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
