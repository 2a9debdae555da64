"""The errors of AMQP 0-9-1, one class per reply code. A leaf: it imports no room.

Whether an error closes the channel or the whole connection follows from its name alone (spec 1.2.1 of the protocol,
"soft" and "hard"), never from where it was raised. Errors are raised where they are known and turned into
channel.close or connection.close in one place, `session.connection`.
"""

from .limits import SHORT_STRING


class AMQPError(Exception):
    """An error that a peer is told of. `text` is without the name in front, as `no queue 'q' in vhost '/'`."""

    code = 541
    name = "INTERNAL_ERROR"
    hard = True

    def __init__(self, text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.class_id = class_id
        self.method_id = method_id

    @property
    def reply_text(self) -> str:
        """`NAME - text`, cut between characters so that it fits a short string (RabbitMQ marks the cut with dots)."""
        text = f"{self.name} - {self.text}"
        encoded = text.encode("utf-8", "replace")
        if len(encoded) <= SHORT_STRING:
            return encoded.decode("utf-8")
        return encoded[: SHORT_STRING - 3].decode("utf-8", "ignore") + "..."


class ContentTooLarge(AMQPError):
    code = 311
    name = "CONTENT_TOO_LARGE"
    hard = False


class AccessRefused(AMQPError):
    code = 403
    name = "ACCESS_REFUSED"
    hard = False


class NotFound(AMQPError):
    code = 404
    name = "NOT_FOUND"
    hard = False


class ResourceLocked(AMQPError):
    code = 405
    name = "RESOURCE_LOCKED"
    hard = False


class PreconditionFailed(AMQPError):
    code = 406
    name = "PRECONDITION_FAILED"
    hard = False


class ConnectionForced(AMQPError):
    code = 320
    name = "CONNECTION_FORCED"


class InvalidPath(AMQPError):
    code = 402
    name = "INVALID_PATH"


class FrameError(AMQPError):
    code = 501
    name = "FRAME_ERROR"


class SyntaxFault(AMQPError):
    code = 502
    name = "SYNTAX_ERROR"


class CommandInvalid(AMQPError):
    code = 503
    name = "COMMAND_INVALID"


class ChannelFault(AMQPError):
    code = 504
    name = "CHANNEL_ERROR"


class UnexpectedFrame(AMQPError):
    code = 505
    name = "UNEXPECTED_FRAME"


class ResourceFault(AMQPError):
    code = 506
    name = "RESOURCE_ERROR"


class NotAllowed(AMQPError):
    code = 530
    name = "NOT_ALLOWED"


class NotSupported(AMQPError):
    """540 of the protocol; not named NotImplemented, which Python has for another purpose."""

    code = 540
    name = "NOT_IMPLEMENTED"


class InternalFault(AMQPError):
    code = 541
    name = "INTERNAL_ERROR"


class LoginRefused(AMQPError):
    """A refused login: 403, but it ends the connection, and the client is told only if it asked to be (spec 1.4)."""

    code = 403
    name = "ACCESS_REFUSED"


class OperatorError(Exception):
    """What an operator asked for cannot be done. `text` is what the API answers and the command line prints."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Invalid(OperatorError):
    """A value that cannot be, or a limit that is reached: HTTP 400. Nothing has changed."""


class Unknown(OperatorError):
    """There is no such vhost, user, parameter or policy: HTTP 404."""


def unknown_vhost(name: str) -> Unknown:
    """The error of an operation on a virtual host that does not exist."""
    return Unknown(f'Virtual host "{name}" does not exist')
