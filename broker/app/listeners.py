"""The AMQP listeners of the configuration."""

from __future__ import annotations

import structlog

from ..config import Config, SSLOptions
from ..net.listener import SocketOptions, address_of
from ..net.server import Server
from ..net.tls import TLS, TLSOptions
from ..runtime.supervisor import Report

log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def socket_options(config: Config) -> SocketOptions:
    return SocketOptions(
        config.tcp_backlog,
        config.tcp_nodelay,
        config.tcp_keepalive,
        config.tcp_sndbuf_bytes,
        config.tcp_recbuf_bytes,
    )


def tls(config: Config, report: Report, options: SSLOptions) -> TLS:
    """Make the TLS context of a listener. Raises OSError, ValueError."""
    return TLS(
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


async def listen(server: Server, config: Config) -> dict[str, list[str]] | None:
    """Open all listeners, and return their addresses, plain (amqp) and with TLS (amqps).

    If one cannot be opened, log it and return None.
    """
    plain: list[str] = []
    secure: list[str] = []
    for host, port in config.listeners_tcp:
        try:
            plain += await server.listen(host, port)
        except OSError as error:
            log.error("cannot_listen", address=address_of((host, port)), reason=error.strerror or str(error))
            return None
    if not config.listeners_ssl:
        return {"amqp": plain}
    try:
        context = tls(config, server.report, config.ssl_options)
    except (OSError, ValueError) as error:
        log.error("cannot_use_certificates", certfile=config.ssl_options.certfile, reason=str(error))
        return None
    for host, port in config.listeners_ssl:
        try:
            secure += await server.listen(host, port, context)
        except OSError as error:
            log.error("cannot_listen", address=address_of((host, port)), reason=error.strerror or str(error))
            return None
    return {"amqp": plain, "amqps": secure}
