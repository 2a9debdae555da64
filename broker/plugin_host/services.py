"""Services of a node: started one by one after the AMQP listeners, stopped before them in reverse.

Those with `around` start before the listeners, and stop when all connections are closed.
"""

from collections.abc import Iterable

import structlog

from ..net.listener import Listener, address_of
from ..operator.local_socket import LocalServer
from ..system_errors import file_error
from .host import Host, Service

log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


async def start(services: dict[str, Service], host: Host) -> bool:
    """Start services and return whether all have started; if one fails, log it and stop the others."""
    for name, service in sorted(services.items(), key=lambda item: not item[1].around):
        if name in host.services:
            continue  # it was started around the others
        host.services[name] = service
        try:
            await service.start(host)
        except (OSError, ValueError) as error:
            reason = file_error(error) if isinstance(error, OSError) else str(error)
            log.error("cannot_start", service=name, reason=reason)
            await stop(host)
            return False
    return True


async def start_around(services: dict[str, Service], host: Host) -> bool:
    """Start the services with `around`, as `start` does."""
    return await start({name: service for name, service in services.items() if service.around}, host)


async def stop(host: Host) -> None:
    """Stop all services."""
    await stop_inner(host)
    for name in reversed(list(host.services)):
        await host.services.pop(name).stop()


async def stop_inner(host: Host) -> None:
    """Stop all services except those with `around`."""
    for name in reversed([name for name, service in host.services.items() if not service.around]):
        await host.services.pop(name).stop()
    host.forget_bound()


def serve_local(services: Iterable[Service], host: Host, listener: Listener) -> LocalServer | None:
    """Have one of the services serve the unix socket; return None if none does."""
    servers = (service.serve_local(host, listener) for service in services)
    return next((server for server in servers if server is not None), None)


def bound(host: Host) -> dict[str, list[str]]:
    """Return the addresses of services by protocol."""
    addresses: dict[str, list[str]] = {}
    for one in host.listening():
        if not one.protocol.startswith("amqp"):
            addresses.setdefault(one.protocol, []).append(address_of((one.host, one.port)))
    return addresses
