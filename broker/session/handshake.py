"""The connection handshake, from the protocol header to connection.open-ok."""

from collections.abc import Callable
from functools import lru_cache, partial

from pamqp import base, commands

from ..amqp.errors import ChannelFault, LoginRefused, NotAllowed, SyntaxFault
from ..amqp.field_table import Table, value_of
from ..core.access.users import User
from ..core.vhost.vhost import VHost
from ..wire import method_encoder, sasl
from ..wire.frame_reader import FrameReader
from . import connection_limits, events
from .channel_host import HANDSHAKE, ChannelHost

ACCEPTED_HEADERS = (b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x00\x09")
OUR_HEADER = b"AMQP\x00\x00\x09\x01"
TUNE = (10, 30)  # errors in tune-ok have the ids of connection.tune
SMALLEST_FRAME_MAX = 4096  # RabbitMQ 4.1 wants 8192, which old clients cannot do
REFUSAL_DELAY_S = 3.0  # slows down the guessing of passwords
EXTERNAL = "EXTERNAL"
STARTS, CLIENTS = 8, 64  # frames of connection.start, and tables of client properties, that are kept
TLS_HANDSHAKE = b"\x16\x03"  # the first bytes of a client with TLS
LOGGED = 40  # characters of an unknown header in the log


class Handshake:
    """State of the handshake. `waits_for` is the next expected method: start-ok, tune-ok or open.

    `opened` is called with the virtual host of connection.open, before the answer.
    """

    __slots__ = ("_connection", "_opened", "_reader", "forget_login", "waits_for")

    def __init__(self, connection: ChannelHost, reader: FrameReader, opened: Callable[[VHost], None]) -> None:
        self._connection = connection
        self._reader = reader
        self._opened = opened
        self.forget_login: Callable[[], None] = lambda: None
        self.waits_for: type[base.Frame] = commands.Connection.StartOk

    def protocol_header(self, header: bytes) -> bool:
        """Answer with connection.start, or for an unknown header with the broker's own and close the connection."""
        connection = self._connection
        if header not in ACCEPTED_HEADERS:
            connection.send(OUR_HEADER)
            fields: dict[str, object] = {"header": repr(header)[:LOGGED]}
            if header.startswith(TLS_HANDSHAKE):
                fields["reason"] = "a TLS handshake at a listener without TLS"
            connection.end("bad_header", 0.0, fields)
            return False
        settings = connection.settings
        # EXTERNAL is offered only to clients with a certificate.
        offered = [name for name in settings.mechanisms if name != EXTERNAL or connection.peer.certificate_name]
        cluster_name = connection.node.cluster_name  # may change at run time
        connection.send(start_frame(settings.server_properties, cluster_name, " ".join(offered)))
        return True

    def handle(self, method: base.Frame, table: Table) -> None:
        """Serve a method of the handshake. Raises NotAllowed (530), ChannelFault (504)."""
        if isinstance(method, commands.Connection.StartOk) and self.waits_for is commands.Connection.StartOk:
            self._start_ok(method, table)
        elif isinstance(method, commands.Connection.TuneOk) and self.waits_for is commands.Connection.TuneOk:
            self._tune_ok(method)
        elif isinstance(method, commands.Connection.Open) and self.waits_for is commands.Connection.Open:
            self._open(method)
        else:
            raise ChannelFault(f"unexpected method in connection state {self.state}")

    @property
    def state(self) -> str:
        """State as RabbitMQ lists it: starting, tuning or opening."""
        return {"Connection.StartOk": "starting", "Connection.TuneOk": "tuning"}.get(self.waits_for.name, "opening")

    def _start_ok(self, method: commands.Connection.StartOk, properties: Table) -> None:
        connection = self._connection
        connection.client_properties, connection.capabilities = shared_properties(properties)
        self._login(method.mechanism or "", response_bytes(method.response))

    def _login(self, mechanism: str, response: bytes) -> None:
        """Authenticate the client; the connection is suspended until the result is known."""
        connection = self._connection
        users = connection.node.users
        loopback = connection.peer.loopback
        logged_in = partial(self._logged_in, mechanism)
        connection.suspend()
        internal_user = connection.peer.internal_user
        if internal_user is not None:
            connection.login_name = internal_user.name
            logged_in(internal_user)
        elif mechanism not in connection.settings.mechanisms:
            logged_in(None)
        elif mechanism == "ANONYMOUS":
            connection.login_name = connection.settings.anonymous_user or ""
            password = connection.settings.anonymous_pass.encode()
            self._authenticate(connection.login_name, password, logged_in)
        elif mechanism == EXTERNAL:
            connection.login_name = connection.peer.certificate_name or ""
            logged_in(users.admitted(connection.login_name, loopback))
        else:
            try:
                name, password = sasl.plain(response) if mechanism == "PLAIN" else sasl.amqplain(response)
            except SyntaxFault as error:
                connection.transport.report(
                    "malformed_login", "warning", {"mechanism": mechanism, "reason": error.text}
                )
                connection.capabilities = frozenset()  # RabbitMQ too answers nothing, and closes after the delay
                logged_in(None)
                return
            connection.login_name = name
            self._authenticate(name, password, logged_in)

    def _authenticate(self, name: str, password: bytes, logged_in: Callable[[User | None], None]) -> None:
        connection = self._connection
        peer = connection.peer
        users = connection.node.users
        self.forget_login = users.authenticate(name, password, peer.loopback, logged_in, peer.host, self._postponed)

    def _postponed(self) -> None:
        """Close the connection without an error, because too many other logins wait for verification."""
        if self._connection.state == HANDSHAKE:
            self._connection.end("login_postponed", 0.0, {"reason": "too many logins wait for an answer"})

    def _logged_in(self, mechanism: str, user: User | None) -> None:
        """Continue after the login has succeeded or failed; the connection may have ended meanwhile."""
        connection = self._connection
        if connection.state != HANDSHAKE:
            return
        connection.mechanism = mechanism
        connection.node.attempts["amqp091"].count(user is not None)
        if user is None:
            events.logged_in(connection, f"user '{connection.login_name}' - invalid credentials")
            text = f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
            connection.close(LoginRefused(text))
            return
        connection.user = user
        events.logged_in(connection)
        settings = connection.settings
        connection.send(
            method_encoder.method(
                0,
                method_encoder.CONNECTION_TUNE,
                method_encoder.short(settings.channel_max)
                + method_encoder.long(settings.frame_max)
                + method_encoder.short(settings.heartbeat_s),
            )
        )
        self.waits_for = commands.Connection.TuneOk
        connection.resume()

    def _tune_ok(self, method: commands.Connection.TuneOk) -> None:
        connection = self._connection
        settings = connection.settings
        frame_max = method.frame_max or 0
        channel_max = method.channel_max or 0
        check_tuned("frame_max", frame_max, SMALLEST_FRAME_MAX, settings.frame_max)
        check_tuned("channel_max", channel_max, 1, settings.channel_max)
        connection.frame_max = frame_max
        connection.channel_max = channel_max
        connection.heartbeat_s = method.heartbeat or 0
        self._reader.frame_max = frame_max
        self.waits_for = commands.Connection.Open

    def _open(self, method: commands.Connection.Open) -> None:
        connection = self._connection
        vhost = connection_limits.admit(connection, method.virtual_host or "")
        self._opened(vhost)
        connection.send(method_encoder.method(0, method_encoder.CONNECTION_OPEN_OK, method_encoder.short_string("")))


@lru_cache(STARTS)
def start_frame(properties: Table, cluster_name: str, mechanisms: str) -> bytes:
    """Return connection.start with these server properties, and the name of the cluster among them."""
    version = b"\x00\x09"
    whole = properties.with_items([("cluster_name", value_of(cluster_name))])
    arguments = version + whole.framed + method_encoder.long_string(mechanisms.encode())
    return method_encoder.method(0, method_encoder.CONNECTION_START, arguments + method_encoder.long_string(b"en_US"))


@lru_cache(CLIENTS)
def shared_properties(properties: Table) -> tuple[Table, frozenset[str]]:
    """Return the properties of a client, which connections of equal clients share, and its capabilities."""
    capabilities = properties.get("capabilities")
    if capabilities is None or not isinstance(capabilities[1], Table):
        return properties, frozenset()
    return properties, frozenset(name for name, value in capabilities[1].items() if value == ("t", True))


def check_tuned(what: str, value: int, smallest: int, largest: int) -> None:
    """Check a value of tune-ok against the broker's limits. Raises NotAllowed (530)."""
    if value and value < smallest:
        raise NotAllowed(f"negotiated {what} = {value} is lower than the minimum allowed value ({smallest})", *TUNE)
    if largest and (not value or value > largest):
        shown = value or "0 (no limit)"
        raise NotAllowed(f"negotiated {what} = {shown} is higher than the maximum allowed value ({largest})", *TUNE)


def response_bytes(text: object) -> bytes:
    """Return the bytes of a SASL response, which pamqp decodes to text if it is UTF-8."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    assert text is None or isinstance(text, (bytes, bytearray))
    return bytes(text or b"")
