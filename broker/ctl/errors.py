"""The errors of `warrenctl`, and the exit statuses with which they end it."""

from collections.abc import Iterator
from contextlib import contextmanager

# Those of sysexits.h that RabbitMQ's tools use
USAGE, DATA, NO_USER, UNAVAILABLE, SOFTWARE, TIMEOUT = 64, 65, 67, 69, 70, 75


class CommandError(Exception):
    """A failed command. `warrenctl` prints the text after the banner and ends with the status.

    `bare`: without "Error:" before the text. `argument`: the command line is wrong, so the usage follows.
    """

    def __init__(self, status: int, text: str, bare: bool = False, argument: bool = False) -> None:
        super().__init__(text)
        self.status, self.text, self.bare, self.argument = status, text, bare, argument


class ExitError(Exception):
    """The end of `warrenctl` with an exit status; only the text is printed, to the standard error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class Unreachable(Exception):
    """No node answers, or it has stopped; the text is one line. `denied`: this user may not use the socket."""

    def __init__(self, text: str, denied: bool = False) -> None:
        super().__init__(text)
        self.denied = denied


class APIError(Exception):
    """A response with an error status: the status, the error code, the reason as text, and the decoded body."""

    def __init__(self, status: int, error: str, reason: str, answer: object = None) -> None:
        super().__init__(status, error, reason)
        self.status, self.error, self.reason, self.answer = status, error, reason, answer


class NotFound(APIError):
    """The object does not exist (404)."""


@contextmanager
def missing(error: Exception) -> Iterator[None]:
    """Raise this error in place of NotFound."""
    try:
        yield
    except NotFound:
        raise error from None


def bad_argument(why: str) -> CommandError:
    return CommandError(DATA, f"Bad argument: {why}", argument=True)


def no_vhost(name: str) -> CommandError:
    return CommandError(DATA, f"Virtual host '{name}' does not exist", bare=True)


def no_user(name: str) -> CommandError:
    return CommandError(NO_USER, f'User "{name}" does not exist')


def no_object() -> CommandError:
    return CommandError(DATA, "Object (queue, stream, exchange, etc) was not found", bare=True)
