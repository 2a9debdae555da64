"""Exit statuses, and the exceptions that end a command with one."""

# Those of sysexits.h that RabbitMQ's tools use
USAGE, DATA, NO_USER, UNAVAILABLE, SOFTWARE, TIMEOUT = 64, 65, 67, 69, 70, 75


class Unreachable(Exception):
    """No node answers, or it has stopped; the text is one line. `denied`: this user may not use the socket."""

    def __init__(self, text: str, denied: bool = False) -> None:
        super().__init__(text)
        self.denied = denied


class ExitError(Exception):
    """The end of the command with an exit status; the text goes to the standard error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
