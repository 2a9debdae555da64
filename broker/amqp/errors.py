"""The errors of AMQP 0-9-1, one class for each reply code, and those of operators' requests.

The class alone decides whether an error closes the channel ("soft" in the specification) or the connection ("hard"),
never the place that raised it. `Channel.close` and `Connection` turn errors into channel.close and connection.close.
"""

from __future__ import annotations

from .limits import SHORT_STRING


class AMQPError(Exception):
    """An error that is reported to the peer. `text` is without the name in front, as `no queue 'q' in vhost '/'`."""

    code = 541
    name = "INTERNAL_ERROR"
    hard = True

    def __init__(self, text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.class_id = class_id
        self.method_id = method_id

    def of_method(self, index: int) -> AMQPError:
        """Set the ids of the failed method (class id << 16 | method id) unless the error has some, and return it."""
        if not self.class_id:
            self.class_id, self.method_id = index >> 16, index & 0xFFFF
        return self

    @property
    def reply_text(self) -> str:
        """The text as `NAME - text`, cut between characters to fit a short string, with three dots as RabbitMQ has."""
        text = f"{self.name} - {self.text}"
        encoded = text.encode("utf-8", "replace")
        if len(encoded) <= SHORT_STRING:
            return encoded.decode("utf-8")
        return encoded[: SHORT_STRING - 3].decode("utf-8", "ignore") + "..."


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


class Unreadable(AMQPError):
    """Messages that the store or the queue does not return now: 506 that closes the channel, as others can go on."""

    code = 506
    name = "RESOURCE_ERROR"
    hard = False


class NotAllowed(AMQPError):
    code = 530
    name = "NOT_ALLOWED"


class NotSupported(AMQPError):
    """The error 540, not-implemented; NotImplemented means something else in Python."""

    code = 540
    name = "NOT_IMPLEMENTED"


class InternalFault(AMQPError):
    code = 541
    name = "INTERNAL_ERROR"


class LoginRefused(AMQPError):
    """A refused login: 403 that closes the connection. Only clients with the capability for it are sent the error."""

    code = 403
    name = "ACCESS_REFUSED"


class OperatorError(Exception):
    """A request of an operator that cannot be done. `text` is in the API's response and printed by warrenctl."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Invalid(OperatorError):
    """An invalid value or a limit that is reached: HTTP 400. Nothing has changed."""


class NotNow(OperatorError):
    """A request that can be done later, such as after an alarm: HTTP 503. Nothing has changed."""


class Unknown(OperatorError):
    """A virtual host, user, parameter or policy that does not exist: HTTP 404."""


def unknown_vhost(name: str) -> Unknown:
    """Return the error for a virtual host that does not exist."""
    return Unknown(f'Virtual host "{name}" does not exist')
