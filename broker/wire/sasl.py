"""Parsers of SASL responses: user name and password of PLAIN and AMQPLAIN."""

from ..amqp.errors import SyntaxFault
from ..amqp.field_table import Table, check


def plain(response: bytes) -> tuple[str, bytes]:
    """Parse `authzid NUL user NUL password`, the first empty or equal to the second; raises SyntaxFault (502)."""
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0] not in (b"", parts[1]):
        raise SyntaxFault("invalid PLAIN response")
    return parts[1].decode("utf-8", "surrogateescape"), parts[2]


def amqplain(response: bytes) -> tuple[str, bytes]:
    """Parse a field table without its length, with LOGIN and PASSWORD; raises SyntaxFault (502)."""
    check(response)
    table = Table(response)
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if login is None or password is None or not isinstance(login[1], bytes) or not isinstance(password[1], bytes):
        raise SyntaxFault("invalid AMQPLAIN response: LOGIN and PASSWORD must be strings")
    return login[1].decode("utf-8", "surrogateescape"), password[1]
