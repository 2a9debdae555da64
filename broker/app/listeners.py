"""The AMQP listeners of the configuration."""

import ssl
import time
from collections.abc import Iterable
from contextlib import suppress

import structlog

from ..config import Config, SSLOptions
from ..config.config import Address
from ..net.certificates import server_expiry
from ..net.listener import SocketOptions, address_of, another_address, listen_error
from ..net.server import Server
from ..net.tls import TLS, TLSOptions
from ..runtime.supervisor import Report

log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def socket_options(config: Config) -> SocketOptions:
    return SocketOptions(
        config.tcp_backlog, config.tcp_nodelay, config.tcp_keepalive, config.tcp_sndbuf_bytes, config.tcp_recbuf_bytes
    )


def tls(config: Config, report: Report, options: SSLOptions) -> TLS:
    """Make the TLS context of a listener; log that its certificate has expired. Raises ValueError."""
    made = TLS(
        TLSOptions(
            options.certfile,
            options.keyfile,
            options.cacertfile,
            options.password,
            options.verify == "verify_peer",
            options.fail_if_no_peer_cert,
            options.versions,
            options.ciphers,
            options.honor_cipher_order,
            config.ssl_cert_login_from,
            config.ssl_handshake_timeout_ms / 1000,
        ),
        report,
    )
    with suppress(OSError):  # of a certificate that no client could verify either
        expiry = server_expiry(made.context, options.certfile)
        if expiry and ssl.cert_time_to_seconds(expiry) < time.time():
            log.warning("certificate_expired", certfile=options.certfile, expired=expiry)
    return made


async def listen(server: Server, config: Config) -> dict[str, list[str]] | None:
    """Open all listeners, and return their addresses, plain (amqp) and with TLS (amqps).

    If one cannot be opened, log it and return None.
    """
    plain = await listen_at(server, config.listeners_tcp, "--amqp")
    if plain is None or not config.listeners_ssl:
        return None if plain is None else {"amqp": plain}
    try:
        context = tls(config, server.report, config.ssl_options)
    except ValueError as error:
        log.error("cannot_use_certificates", certfile=config.ssl_options.certfile, reason=str(error))
        return None
    secure = await listen_at(server, config.listeners_ssl, "--amqps", context)
    return None if secure is None else {"amqp": plain, "amqps": secure}


async def listen_at(
    server: Server, addresses: Iterable[Address], option: str, context: TLS | None = None
) -> list[str] | None:
    """Open listeners and return their addresses. If one cannot be opened, log it and return None.

    `option` is the option of the command line that chooses other addresses, for the log.
    """
    bound: list[str] = []
    for host, port in addresses:
        try:
            bound += await server.listen(host, port, context)
        except OSError as error:
            address, reason = address_of((host, port)), listen_error(error, port)
            another = another_address(option, error, host, port)
            log.error("cannot_listen", address=address, reason=reason, option=another)
            return None
    return bound
