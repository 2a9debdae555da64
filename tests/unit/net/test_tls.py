"""TLS on real sockets: admission of clients, their certificates, and changes of the server's."""

import asyncio
import os
import re
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import aio_pika
import pika
import pytest
import trustme
import uvloop
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from pytest import MonkeyPatch

from tests.support.amqp_client import Client, Silence
from tests.support.listening_server import ListeningServer
from tests.support.peer import SocketPipe
from warren.broker.logs.messages import PHRASES
from warren.broker.net import listener
from warren.broker.net.tls import TLS, TLSOptions, context_of

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [uvloop.new_event_loop, asyncio.new_event_loop]


class Authority:
    """A certificate authority, and the files of a server certificate that it has signed."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.cacertfile = str(folder / "ca.pem")
        self.certfile = str(folder / "server.pem")
        self.keyfile = str(folder / "server.key")
        self.ca.cert_pem.write_to_path(self.cacertfile)
        self.issue()

    def issue(self) -> None:
        """Sign another certificate for the server, in the same files."""
        issued = self.ca.issue_cert("localhost", "127.0.0.1")
        issued.private_key_pem.write_to_path(self.keyfile)
        issued.cert_chain_pems[0].write_to_path(self.certfile)
        for later, name in enumerate((self.certfile, self.keyfile), 1):  # whatever the file system's clock can tell
            os.utime(name, ns=(0, os.stat(name).st_mtime_ns + later * 1_000_000_000))

    def options(self, **options: object) -> TLSOptions:
        return TLSOptions(self.certfile, self.keyfile, self.cacertfile, **options)  # type: ignore[arg-type]

    def client(self, *names: str, common_name: str = "client", organization: str = "acme") -> ssl.SSLContext:
        """Return the context of a client, with a certificate if it has a name."""
        context = ssl.create_default_context(cafile=self.cacertfile)
        if names:
            issued = self.ca.issue_cert(*names, common_name=common_name, organization_name=organization)
            issued.configure_cert(context)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture(params=LOOPS, ids=["uvloop", "asyncio"])
def listening(request: pytest.FixtureRequest) -> Iterator[ListeningServer]:
    server = ListeningServer(request.param)
    yield server
    server.close()


class TLSPipe(SocketPipe):
    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__("127.0.0.1", port)
        self._socket = context.wrap_socket(self._socket, server_hostname="localhost")

    @property
    def serial(self) -> str:
        """Return the serial number of the server's certificate."""
        certificate = self._socket.getpeercert()  # type: ignore[attr-defined]
        return str(certificate["serialNumber"])


def opened(port: int, context: ssl.SSLContext) -> Client:
    return Client(TLSPipe(port, context)).open()


def is_refused(port: int, context: ssl.SSLContext) -> bool:
    """Expect that the client is refused; with TLS 1.3 it notices at its first read."""
    pipe = TLSPipe(port, context)
    try:
        pipe.send(b"AMQP\0\0\x09\1")
        return pipe.receive(None) == b""
    except ssl.SSLError:
        return True
    finally:
        pipe.close()


def serial(port: int, context: ssl.SSLContext) -> str:
    pipe = TLSPipe(port, context)
    try:
        return pipe.serial
    finally:
        pipe.close()


def test_a_long_message_passes_through_tls(listening: ListeningServer, authority: Authority) -> None:
    client = opened(listening.listen(authority.options()), authority.client())
    ch = client.channel()
    ch.declare("queue")
    body = os.urandom(3_000_000)
    ch.publish("", "queue", body)
    assert ch.get("queue").body == body
    (connection,) = listening.server.connections.values()
    assert connection.peer.encryption is not None
    assert connection.peer.encryption.protocol == "tlsv1.3" and connection.peer.encryption.cipher.startswith("TLS_")
    assert connection.peer.certificate_name is None and connection.peer.encryption.subject == ""
    assert connection.received_bytes > 3_000_000 < connection.sent_bytes
    client.vanish()


def test_a_required_certificate_is_required(listening: ListeningServer, authority: Authority) -> None:
    port = listening.listen(authority.options(verify=True, certificate_required=True))
    assert is_refused(port, authority.client())
    assert listening.reported("tls_handshake_failed")["reason"] == "the client has sent no certificate"
    assert not listening.server.connections


def test_a_foreign_certificate_is_refused(listening: ListeningServer, authority: Authority, tmp_path: Path) -> None:
    port = listening.listen(authority.options(verify=True))
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    context = authority.client()
    other.ca.issue_cert("client", common_name="client").configure_cert(context)
    assert is_refused(port, context)
    reason = str(listening.reported("tls_handshake_failed")["reason"])
    assert reason.startswith("the client's certificate is refused: ") and "_ssl.c" not in reason
    opened(port, authority.client()).vanish()


@pytest.mark.parametrize(
    ("login_from", "name"),
    [
        ("distinguished_name", "CN=client,OU={ou},O=acme"),
        ("common_name", "client"),
        ("subject_alternative_name", "client.example"),
    ],
)
def test_a_certificate_is_a_user(listening: ListeningServer, authority: Authority, login_from: str, name: str) -> None:
    port = listening.listen(authority.options(verify=True, certificate_required=True, login_from=login_from))
    client = opened(port, authority.client("client.example"))
    (connection,) = listening.server.connections.values()
    encryption = connection.peer.encryption
    assert encryption is not None and encryption.issuer and " - " in encryption.validity
    unit = encryption.subject.partition("OU=")[2].partition(",")[0]
    assert connection.peer.certificate_name == name.format(ou=unit)
    client.vanish()


def test_older_versions_of_tls_are_refused(listening: ListeningServer, authority: Authority) -> None:
    port = listening.listen(authority.options(versions=("tlsv1.3",)))
    context = authority.client()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        TLSPipe(port, context)
    reason = listening.reported("tls_handshake_failed")["reason"]
    assert reason == "the client offers no version of TLS that is configured"


def test_who_does_not_speak_tls_is_turned_away_and_logged(listening: ListeningServer, authority: Authority) -> None:
    pipe = SocketPipe("127.0.0.1", listening.listen(authority.options()))
    pipe.send(b"AMQP\0\0\x09\1")
    while pipe.receive(None):  # an alert, perhaps
        pass
    pipe.close()
    failed = listening.reported("tls_handshake_failed")
    assert str(failed["peer"]).startswith("127.0.0.1:") and failed["reason"] == "the client does not speak TLS"


def test_a_client_with_tls_at_a_listener_without_is_logged_so(listening: ListeningServer, authority: Authority) -> None:
    with pytest.raises(ssl.SSLError):
        TLSPipe(listening.listen(None), authority.client())
    fields = listening.reported("bad_header")
    assert fields["reason"] == "a TLS handshake at a listener without TLS"
    sentence = PHRASES["bad_header"]
    assert callable(sentence) and sentence(fields).endswith("):\na TLS handshake at a listener without TLS")


def test_a_client_that_does_not_trust_the_broker_is_logged_so(listening: ListeningServer, authority: Authority) -> None:
    port = listening.listen(authority.options())
    with pytest.raises(ssl.SSLCertVerificationError):
        TLSPipe(port, ssl.create_default_context())
    reason = listening.reported("tls_handshake_failed")["reason"]
    assert reason == "the client does not trust the broker's certificate"


def test_stalled_handshakes_end(listening: ListeningServer, authority: Authority, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKES_LIMIT", 3)
    port = listening.listen(authority.options(handshake_timeout_s=60))
    silent = [SocketPipe("127.0.0.1", port) for _ in range(4)]
    assert listening.reported("tls_handshake_failed")["reason"] == "too many"
    assert silent[0].receive(5000) == b""
    options = pika.SSLOptions(authority.client(), "localhost")
    pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, ssl_options=options)).close()
    assert silent[1].receive(5000) == b""
    with pytest.raises(Silence):
        silent[3].receive(100)
    for pipe in silent:
        pipe.close()


def test_a_handshake_that_takes_too_long_is_ended(listening: ListeningServer, authority: Authority) -> None:
    pipe = SocketPipe("127.0.0.1", listening.listen(authority.options(handshake_timeout_s=0.2)))
    assert pipe.receive(None) == b""
    pipe.close()
    assert listening.reported("tls_handshake_failed")


def test_new_certificates_are_for_new_connections(listening: ListeningServer, authority: Authority) -> None:
    port = listening.listen(authority.options())
    context = authority.client()
    client = opened(port, context)
    before = serial(port, context)
    authority.issue()
    assert serial(port, context) == before
    listening.call(listening.server.reload_certificates)
    assert serial(port, context) != before
    client.channel().declare("queue")
    client.vanish()


def test_a_changed_file_is_noticed_and_a_broken_one_keeps_what_there_was(authority: Authority) -> None:
    log: list[str] = []
    tls = TLS(authority.options(), lambda event, level, fields: log.append(event))
    first = tls.context
    tls.reload_if_changed()
    assert tls.context is first and log == []
    whole = Path(authority.certfile).read_text()
    Path(authority.certfile).write_text("nothing")
    tls.reload_if_changed()
    tls.reload_if_changed()
    assert tls.context is first and log == ["certificates_not_loaded"]
    Path(authority.certfile).unlink()
    tls.reload_if_changed()
    assert tls.context is first and log == ["certificates_not_loaded"] * 2
    Path(authority.certfile).write_text(whole)
    tls.reload_if_changed()
    assert tls.context is not first and log[2:] == ["certificates_loaded"]


def test_options_that_cannot_be_are_refused(authority: Authority, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tlsv1\.1"):
        context_of(authority.options(versions=("tlsv1.1",)))
    with pytest.raises(ValueError, match="cacertfile"):
        context_of(TLSOptions(authority.certfile, authority.keyfile, verify=True))
    with pytest.raises(ValueError, match="none of the ciphers NOTHING"):
        context_of(authority.options(ciphers=("NOTHING",)))


def test_a_file_that_cannot_be_used_is_named_with_what_is_wrong(authority: Authority, tmp_path: Path) -> None:
    """A sentence in place of OpenSSL's `[SSL] PEM lib (_ssl.c:3874)`."""
    certificate, key = authority.certfile, authority.keyfile
    junk, encrypted, foreign = (str(tmp_path / name) for name in ("junk.pem", "encrypted.pem", "foreign.pem"))
    Path(junk).write_text("hello\n")
    loaded = load_pem_private_key(Path(key).read_bytes(), None)
    for path, made, protection in (
        (encrypted, loaded, BestAvailableEncryption(b"secret")),
        (foreign, generate_private_key(SECP256R1()), NoEncryption()),
    ):
        Path(path).write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection))
    for options, sentence in (
        (TLSOptions(str(tmp_path / "none.pem"), key), f"{tmp_path}/none.pem: there is no such file or folder"),
        (TLSOptions(certificate, str(tmp_path)), f"{tmp_path}: it is a folder, and a file is needed"),
        (TLSOptions(certificate, foreign), f"{foreign} is not the key of the certificate in {certificate}"),
        (TLSOptions(junk, key), f"{junk}: it has no certificate in PEM format"),
        (TLSOptions(key, certificate), f"{key}: it has no certificate in PEM format"),
        (TLSOptions(certificate, junk), f"{junk}: it has no private key in PEM format"),
        (
            TLSOptions(certificate, "/dev/zero"),
            "/dev/zero: it is a device or a pipe, and a file is needed: check the path",
        ),
        (TLSOptions(certificate, encrypted), "the key is encrypted, and no password is configured"),
        (TLSOptions(certificate, encrypted, password="x"), "the configured password is not its own"),
        (TLSOptions(certificate, key, junk), f"{junk}: it has no certificate in PEM format"),
    ):
        with pytest.raises(ValueError, match=re.escape(sentence)):
            context_of(options)
    context_of(TLSOptions(certificate, encrypted, password="secret"))


def test_no_ticket_comes_unasked(authority: Authority) -> None:
    assert context_of(authority.options()).num_tickets == 0


def test_listed_ciphers_are_those_of_1_2_and_1_3_has_all_of_its_own(authority: Authority) -> None:
    context = context_of(authority.options(ciphers=("ECDHE-RSA-AES256-GCM-SHA384", "TLS_AES_128_GCM_SHA256")))
    names = {cipher["name"] for cipher in context.get_ciphers()}
    assert {name for name in names if not name.startswith("TLS_")} == {"ECDHE-RSA-AES256-GCM-SHA384"}
    assert "TLS_AES_256_GCM_SHA384" in names


def test_pika_speaks_to_it(listening: ListeningServer, authority: Authority) -> None:
    port = listening.listen(authority.options())
    options = pika.SSLOptions(authority.client(), "localhost")
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, ssl_options=options)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("pika")
        channel.basic_publish("", "pika", b"body")
        assert channel.basic_get("pika", auto_ack=True)[2] == b"body"


def test_a_certificate_is_enough_to_log_in_where_that_is_offered(authority: Authority) -> None:
    listening = ListeningServer(mechanisms=("PLAIN", "EXTERNAL"))
    options = authority.options(verify=True, certificate_required=True, login_from="common_name")
    port = listening.listen(options)
    listening.call(listening.node.users.add, "sensor")
    listening.call(listening.node.users.set_permission, "sensor", "/", "", "", "")
    for name, admitted in (("sensor", True), ("stranger", False)):
        tls = pika.SSLOptions(authority.client("client.example", common_name=name), "localhost")
        credentials = pika.credentials.ExternalCredentials()
        parameters = pika.ConnectionParameters("127.0.0.1", port, credentials=credentials, ssl_options=tls)
        if admitted:
            pika.BlockingConnection(parameters).close()
        else:
            with pytest.raises(pika.exceptions.ProbableAuthenticationError):
                pika.BlockingConnection(parameters)
    listening.close()


def test_aio_pika_speaks_to_it(listening: ListeningServer, authority: Authority) -> None:
    port = listening.listen(authority.options(verify=True, certificate_required=True))

    async def speak() -> bytes:
        url = f"amqps://guest:guest@localhost:{port}/"
        async with await aio_pika.connect(url, ssl_context=authority.client("client.example")) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("aio-pika")
            await channel.default_exchange.publish(aio_pika.Message(b"body"), queue.name)
            return (await queue.get(no_ack=True)).body

    assert asyncio.run(speak()) == b"body"
