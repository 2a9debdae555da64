"""The decoder of method payloads to pamqp's method objects, with checks that pamqp lacks.

pamqp accepts truncated payloads, recurses on nested tables and loses the types in them. So the payload is checked first
against the argument types that pamqp declares: every length must fit and nothing may be left over. The one table that a
method can have is cut out, checked, and returned with its bytes unchanged.
"""

from __future__ import annotations

from pamqp import base, commands

from ..amqp.errors import AMQPError, CommandInvalid, FrameError, SyntaxFault
from ..amqp.field_table import Table, check
from ..amqp.names import strip_line_ends

FIXED = {"octet": 1, "short": 2, "long": 4, "longlong": 8, "timestamp": 8}
ACCESS_REQUEST = 0x001E000A  # of AMQP 0-8, unknown to pamqp; it is always granted, so its arguments are ignored
EMPTY_TABLE = b"\0\0\0\0"
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
    SyntaxFault (502) for all else that cannot be decoded; each with the ids of the method.
    """
    if index == ACCESS_REQUEST:
        return base.Frame(), Table.EMPTY
    class_id, method_id = index >> 16, index & 0xFFFF
    kind = commands.INDEX_MAPPING.get(index)
    if kind is None:
        raise CommandInvalid("unimplemented method", class_id, method_id)
    # Without __init__, which warns for some old methods; `unmarshal` sets all arguments.
    method: base.Frame = object.__new__(kind)
    try:
        arguments, table = _walk(method, payload[4:])
        method.unmarshal(arguments)
    except AMQPError as error:
        error.class_id, error.method_id = class_id, method_id
        raise
    except UnicodeDecodeError as error:
        raise FrameError("Malformed UTF-8 in shortstr", class_id, method_id) from error
    for name in NAMES.get(index, ()):
        setattr(method, name, strip_line_ends(getattr(method, name)))
    return method, table


def _walk(method: base.Frame, arguments: bytes) -> tuple[bytes, Table]:
    """Check the arguments, and return them with an empty table in place of theirs, and their table."""
    at = 0
    bits = 0
    table = Table.EMPTY
    start = stop = -1
    for name in method.attributes():
        kind = method.amqp_type(name)
        if kind == "bit":
            if bits % 8 == 0:
                at += 1
            bits += 1
            continue
        bits = 0
        if kind == "table":
            start = at
            at = stop = _end(arguments, at, 4)
            raw = arguments[start + 4 : stop]
            check(raw)
            table = Table(raw)
        elif kind == "shortstr":
            at = _end(arguments, at, 1)
        elif kind == "longstr":
            at = _end(arguments, at, 4)
        else:
            at += FIXED[kind]
    if at != len(arguments):
        raise SyntaxFault("method arguments are shorter or longer than the method has")
    if start >= 0:
        arguments = arguments[:start] + EMPTY_TABLE + arguments[stop:]
    return arguments, table


def _end(arguments: bytes, at: int, width: int) -> int:
    """Return the end of a string or table that starts with a length of `width` bytes."""
    if at + width > len(arguments):
        raise SyntaxFault("method arguments end within a length")
    end = at + width + int.from_bytes(arguments[at : at + width], "big")
    if end > len(arguments):
        raise SyntaxFault("method arguments end within a string or table")
    return end
