"""Connections over TLS: verification, client certificates, unusable files."""

from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tests.support.upstream_broker import PATIENCE_S, on_each_loop, running
from warren.broker.core.access.users import User
from warren.broker.core.metadata.records import StoredUser
from warren.broker.net.tls import TLSOptions
from warren.federation.upstream.endpoint import Endpoint, parse_endpoint
from warren.federation.upstream.tls import make_context

pytestmark = pytest.mark.sockets


class Authority:
    """Files of a server and of a client."""

    def __init__(self, folder: Path) -> None:
        ca = trustme.CA()
        self.ca = str(folder / "ca.pem")
        ca.cert_pem.write_to_path(self.ca)
        self.server = self._issue(ca, folder / "server", "localhost", "127.0.0.1")
        self.client = self._issue(ca, folder / "client", "client", common_name="guest")

    def _issue(self, ca: trustme.CA, path: Path, *names: str, **options: Any) -> tuple[str, str]:
        issued = ca.issue_cert(*names, **options)
        certfile, keyfile = f"{path}.pem", f"{path}.key"
        issued.cert_chain_pems[0].write_to_path(certfile)
        issued.private_key_pem.write_to_path(keyfile)
        return certfile, keyfile

    def options(self, **options: Any) -> TLSOptions:
        return TLSOptions(*self.server, self.ca, **options)

    def encrypted_key(self, path: Path, passphrase: bytes) -> Path:
        key = load_pem_private_key(Path(self.client[1]).read_bytes(), None)
        encryption = BestAvailableEncryption(passphrase)
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        return path


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_by_default_a_link_trusts_the_system(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", authority.ca)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    assert make_context(parse_endpoint("amqps://h?verify=verify_peer")).cert_store_stats()["x509_ca"] == 1
    assert make_context(parse_endpoint("amqps://h?verify=verify_none")).cert_store_stats()["x509_ca"] == 0


@on_each_loop
async def test_tls_is_verified_as_the_uri_says(authority: Authority, tmp_path: Path) -> None:
    async with running(authority.options()) as site:

        def at(query: str, host: str = "127.0.0.1") -> Endpoint:
            return parse_endpoint(f"amqps://{host}:{site.port}/%2f?{query}")

        for query in (f"cacertfile={authority.ca}", "verify=verify_none",
                      f"cacertfile={authority.ca}&server_name_indication=localhost",
                      f"cacertfile={authority.ca}&server_name_indication=disable"):  # fmt: skip
            connection = await site.dial(at(query))
            assert site.connection().peer.encryption is not None
            await connection.close(PATIENCE_S)
        assert "certificate verify failed" in (await site.fault(at(""))).text
        wrong = f"cacertfile={authority.ca}&server_name_indication=elsewhere"
        assert "certificate verify failed" in (await site.fault(at(wrong))).text
        missing = f"cacertfile={tmp_path}/gone.pem&password=secret"
        assert (await site.fault(at(missing))).text == "cannot use cacertfile: No such file or directory"
        missing = f"cacertfile={authority.ca}&certfile={authority.ca}&keyfile={authority.ca}"
        assert (await site.fault(at(missing))).text.startswith("cannot use certfile or keyfile: ")


@on_each_loop
async def test_a_close_after_tls_may_be_for_a_certificate(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(Path(mkdtemp(dir=tmp_path)))
    async with running(authority.options(verify=True, certificate_required=True)) as site:
        uri = f"amqps://127.0.0.1:{site.port}/%2f?cacertfile={authority.ca}"
        closed = "the upstream closed the connection right after the TLS handshake: it may "
        wanted = f"{closed}require a client certificate (certfile= and keyfile= in the URI)"
        assert (await site.fault(parse_endpoint(uri))).text == wanted
        own = f"{uri}&certfile={stranger.client[0]}&keyfile={stranger.client[1]}"
        assert (await site.fault(parse_endpoint(own))).text == f"{closed}not accept the client certificate"
        plain = parse_endpoint(f"amqp://127.0.0.1:{site.port}/%2f")
        assert "the port may be one for TLS (amqps://)" in (await site.fault(plain)).text


@on_each_loop
async def test_a_port_without_tls_and_a_certificate_of_another_authority_are_named(authority: Authority) -> None:
    async with running() as site:
        text = (await site.fault(parse_endpoint(f"amqps://127.0.0.1:{site.port}/%2f?verify=verify_none"))).text
        assert text == "the upstream does not speak TLS at this port: it may be one for amqp://"
    async with running(authority.options()) as site:
        text = (await site.fault(parse_endpoint(f"amqps://127.0.0.1:{site.port}/%2f"))).text
        assert text.endswith("(cacertfile= in the URI names the file with the upstream's authority)")
        name = f"?cacertfile={authority.ca}&server_name_indication=elsewhere"
        text = (await site.fault(parse_endpoint(f"amqps://127.0.0.1:{site.port}/%2f{name}"))).text
        assert text.endswith("(server_name_indication= in the URI is the name in the upstream's certificate)")


@on_each_loop
async def test_only_the_log_has_the_reason_for_a_policymaker(authority: Authority, tmp_path: Path) -> None:
    async with running(authority.options()) as site:
        user = User(StoredUser("policymaker", b"", ("policymaker",)))
        texts: set[str] = set()
        reasons: list[object] = []
        for path in (f"{tmp_path}/gone.pem", tmp_path, authority.client[1], "/dev/ptmx"):
            one = parse_endpoint(f"amqps://127.0.0.1:{site.port}/%2f?cacertfile={path}")
            texts.add((await site.fault(one, user)).text)
            reasons.append(site.log[-1][2]["reason"])
        assert texts == {"cannot use a file that the URI names, the broker's log says why"}
        assert len(set(reasons)) == 4, reasons


@on_each_loop
async def test_a_certificate_logs_in(authority: Authority) -> None:
    async with running(authority.options(verify=True, login_from="common_name")) as site:
        certfile, keyfile = authority.client
        query = f"cacertfile={authority.ca}&certfile={certfile}&keyfile={keyfile}&auth_mechanism=external"
        connection = await site.dial(parse_endpoint(f"amqps://127.0.0.1:{site.port}/%2f?{query}"))
        user = site.connection().user
        assert user is not None and user.name == "guest" and site.connection().mechanism == "EXTERNAL"
        await connection.close(PATIENCE_S)


@on_each_loop
async def test_only_its_passphrase_opens_a_key(authority: Authority, tmp_path: Path) -> None:
    locked = authority.encrypted_key(tmp_path / "locked.key", b"open sesame")
    async with running(authority.options()) as site:

        def at(password: str) -> Endpoint:
            query = f"cacertfile={authority.ca}&certfile={authority.client[0]}&keyfile={locked}{password}"
            return parse_endpoint(f"amqps://127.0.0.1:{site.port}/%2f?{query}")

        connection = await site.dial(at("&password=open%20sesame"))
        await connection.close(PATIENCE_S)
        for wrong in ("", "&password=secret"):
            fault = await site.fault(at(wrong))
            assert fault.text.startswith("cannot use certfile or keyfile: ") and "secret" not in fault.text
