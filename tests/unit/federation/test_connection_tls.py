"""Connections over TLS: verification, client certificates, unusable files."""

from collections.abc import Callable
from functools import partial
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

from tests.support import upstream_broker
from tests.support.upstream_broker import LOOPS, PATIENCE_S, UpstreamBroker
from warren.broker.core.access.users import User
from warren.broker.core.metadata.records import StoredUser
from warren.broker.net.tls import TLSOptions
from warren.federation.upstream.endpoint import Endpoint, parse_endpoint
from warren.federation.upstream.tls import make_context

pytestmark = pytest.mark.sockets

Run = Callable[..., None]


@pytest.fixture(params=LOOPS, ids=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    return partial(upstream_broker.run, request.param)


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


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_by_default_a_link_trusts_the_system(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", authority.ca)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    assert make_context(parse_endpoint("amqps://h?verify=verify_peer")).cert_store_stats()["x509_ca"] == 1
    assert make_context(parse_endpoint("amqps://h?verify=verify_none")).cert_store_stats()["x509_ca"] == 0


def test_tls_is_verified_as_the_uri_says(run: Run, authority: Authority, tmp_path: Path) -> None:
    async def test(site: UpstreamBroker) -> None:
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

    run(test, authority.options())


def test_a_close_after_tls_may_be_for_a_certificate(run: Run, authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(Path(mkdtemp(dir=tmp_path)))

    async def test(site: UpstreamBroker) -> None:
        uri = f"amqps://127.0.0.1:{site.port}/%2f?cacertfile={authority.ca}"
        closed = "the upstream closed the connection right after the TLS handshake: it may "
        wanted = f"{closed}require a client certificate (certfile= and keyfile= in the URI)"
        assert (await site.fault(parse_endpoint(uri))).text == wanted
        own = f"{uri}&certfile={stranger.client[0]}&keyfile={stranger.client[1]}"
        assert (await site.fault(parse_endpoint(own))).text == f"{closed}not accept the client certificate"
        plain = parse_endpoint(f"amqp://127.0.0.1:{site.port}/%2f")
        assert "the port may be one for TLS (amqps://)" in (await site.fault(plain)).text

    run(test, authority.options(verify=True, certificate_required=True))


def test_a_port_without_tls_and_a_certificate_of_another_authority_are_named(run: Run, authority: Authority) -> None:
    async def without(site: UpstreamBroker) -> None:
        text = (await site.fault(parse_endpoint(f"amqps://127.0.0.1:{site.port}/%2f?verify=verify_none"))).text
        assert text == "the upstream does not speak TLS at this port: it may be one for amqp://"

    async def other(site: UpstreamBroker) -> None:
        text = (await site.fault(parse_endpoint(f"amqps://127.0.0.1:{site.port}/%2f"))).text
        assert text.endswith("(cacertfile= in the URI names the file with the upstream's authority)")
        name = f"?cacertfile={authority.ca}&server_name_indication=elsewhere"
        text = (await site.fault(parse_endpoint(f"amqps://127.0.0.1:{site.port}/%2f{name}"))).text
        assert text.endswith("(server_name_indication= in the URI is the name in the upstream's certificate)")

    run(without)
    run(other, authority.options())


def test_only_the_log_has_the_reason_for_a_policymaker(run: Run, authority: Authority, tmp_path: Path) -> None:
    async def test(site: UpstreamBroker) -> None:
        user = User(StoredUser("policymaker", b"", ("policymaker",)))
        texts: set[str] = set()
        reasons: list[object] = []
        for path in (f"{tmp_path}/gone.pem", tmp_path, authority.client[1], "/dev/ptmx"):
            one = parse_endpoint(f"amqps://127.0.0.1:{site.port}/%2f?cacertfile={path}")
            texts.add((await site.fault(one, user)).text)
            reasons.append(site.log[-1][2]["reason"])
        assert texts == {"cannot use a file that the URI names, the broker's log says why"}
        assert len(set(reasons)) == 4, reasons

    run(test, authority.options())


def test_a_certificate_logs_in(run: Run, authority: Authority) -> None:
    async def test(site: UpstreamBroker) -> None:
        certfile, keyfile = authority.client
        query = f"cacertfile={authority.ca}&certfile={certfile}&keyfile={keyfile}&auth_mechanism=external"
        connection = await site.dial(parse_endpoint(f"amqps://127.0.0.1:{site.port}/%2f?{query}"))
        user = site.connection().user
        assert user is not None and user.name == "guest" and site.connection().mechanism == "EXTERNAL"
        await connection.close(PATIENCE_S)

    run(test, authority.options(verify=True, login_from="common_name"))


def test_only_its_passphrase_opens_a_key(run: Run, authority: Authority, tmp_path: Path) -> None:
    certfile, keyfile = authority.client
    key = load_pem_private_key(Path(keyfile).read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open sesame")))

    async def test(site: UpstreamBroker) -> None:
        def at(password: str) -> Endpoint:
            query = f"cacertfile={authority.ca}&certfile={certfile}&keyfile={locked}{password}"
            return parse_endpoint(f"amqps://127.0.0.1:{site.port}/%2f?{query}")

        connection = await site.dial(at("&password=open%20sesame"))
        await connection.close(PATIENCE_S)
        for wrong in ("", "&password=secret"):
            fault = await site.fault(at(wrong))
            assert fault.text.startswith("cannot use certfile or keyfile: ") and "secret" not in fault.text

    run(test, authority.options())
