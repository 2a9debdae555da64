"""The decoder of method payloads to pamqp's method objects, with checks that pamqp lacks.

pamqp accepts truncated payloads, recurses on nested tables and loses the types in them. So the payload is checked first
against the argument types that pamqp declares: every length must fit, without a rest. The one table that a method can
have is checked, and returned with its bytes unchanged.
"""

from pamqp import base, commands

from ..amqp.errors import AMQPError, CommandInvalid, FrameError, SyntaxFault
from ..amqp.field_table import Table, check
from ..amqp.names import strip_line_ends

FIXED = {"octet": 1, "short": 2, "long": 4, "longlong": 8}
LENGTHS = {"shortstr": 1, "longstr": 4, "table": 4}  # bytes of the length before the value
KINDS: dict[int, type[base.Frame]] = commands.INDEX_MAPPING
# The arguments of each method with their types, which pamqp looks up by name for each frame
ARGUMENTS = {index: [(name, kind.amqp_type(name)) for name in kind.attributes()] for index, kind in KINDS.items()}
ACCESS_REQUEST = 0x001E000A  # of AMQP 0-8, unknown to pamqp; it is always granted, so its arguments are ignored
NAMES: dict[int, tuple[str, ...]] = {  # the arguments whose line ends RabbitMQ strips; not those of the class basic
    commands.Exchange.Declare.index: ("exchange",),
    commands.Exchange.Delete.index: ("exchange",),
    commands.Exchange.Bind.index: ("destination", "source"),
    commands.Exchange.Unbind.index: ("destination", "source"),
    commands.Queue.Declare.index: ("queue",),
    commands.Queue.Bind.index: ("queue", "exchange"),
    commands.Queue.Purge.index: ("queue",),
    commands.Queue.Delete.index: ("queue",),
    commands.Queue.Unbind.index: ("queue", "exchange"),
}


def decode(index: int, payload: bytes) -> tuple[base.Frame, Table]:
    """Decode a method and its table (empty if it has none). Names of queues and exchanges have no line ends.

    Raises CommandInvalid (503) for an unknown method, FrameError (501) for a short string that is not UTF-8, and
    SyntaxFault (502) for all other malformed payloads; each with the ids of the method.
    """
    if index == ACCESS_REQUEST:
        return base.Frame(), Table.EMPTY
    class_id, method_id = index >> 16, index & 0xFFFF
    kind = KINDS.get(index)
    if kind is None:
        raise CommandInvalid("unimplemented method", class_id, method_id)
    # Without __init__, which warns for some old methods; `_read` sets all arguments.
    method: base.Frame = object.__new__(kind)
    try:
        table = _read(method, index, payload[4:])
    except AMQPError as error:
        error.class_id, error.method_id = class_id, method_id
        raise
    except UnicodeDecodeError as error:
        raise FrameError("Malformed UTF-8 in shortstr", class_id, method_id) from error
    for name in NAMES.get(index, ()):
        setattr(method, name, strip_line_ends(getattr(method, name)))
    return method, table


def _read(method: base.Frame, index: int, arguments: bytes) -> Table:
    """Set the arguments of a method, and return its table."""
    table = Table.EMPTY
    for name, kind, start, stop in _spans(index, arguments):
        value: object
        if kind == "shortstr":
            value = str(arguments[start:stop], "utf-8")
        elif kind == "bit":
            value = bool(arguments[start] >> stop & 1)
        elif kind == "table":
            table, value = Table(arguments[start:stop]), {}
        elif kind == "longstr":
            value = _text(arguments[start:stop])
        else:
            value = int.from_bytes(arguments[start:stop], "big")
        setattr(method, name, value)
    return table


def _spans(index: int, arguments: bytes) -> list[tuple[str, str, int, int]]:
    """Check the arguments, and return name, type, start and end of each; for a bit its byte and its number in it."""
    spans = []
    at = bits = 0
    for name, kind in ARGUMENTS[index]:
        if kind == "bit":
            at += bits % 8 == 0
            spans.append((name, kind, at - 1, bits % 8))
            bits += 1
            continue
        bits = 0
        length = LENGTHS.get(kind)
        start, at = (at, at + FIXED[kind]) if length is None else (at + length, _end(arguments, at, length))
        if kind == "table":
            check(arguments[start:at])
        spans.append((name, kind, start, at))
    if at != len(arguments):
        raise SyntaxFault("method arguments are shorter or longer than the method has")
    return spans


def _text(value: bytes) -> str | bytes:
    """Return a long string as text, or as bytes if they are not UTF-8, as pamqp does."""
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        return value


def _end(arguments: bytes, at: int, width: int) -> int:
    """Return the end of a string or table that starts with a length of `width` bytes."""
    if at + width > len(arguments):
        raise SyntaxFault("method arguments end within a length")
    end = at + width + int.from_bytes(arguments[at : at + width], "big")
    if end > len(arguments):
        raise SyntaxFault("method arguments end within a string or table")
    return end
