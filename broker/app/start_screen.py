"""The start screen: printed on a terminal once the broker is ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.messages.storage_status import POSTGRESQL, StorageStatus

Bound = Mapping[str, Sequence[str]]
"""Addresses, HOST:PORT or the path of a socket, by RabbitMQ's name of the protocol."""

# protocol -> label, and format of the address for a browser or client
SHOWN = {
    "amqp": ("AMQP", "amqp://{}"),
    "amqp/ssl": ("AMQP with TLS", "amqps://{}"),
    "http": ("Browser", "http://{}{prefix}/"),
    "https": ("Browser", "https://{}{prefix}/"),
    "http/prometheus": ("Metrics", "http://{}/metrics"),
    "https/prometheus": ("Metrics", "https://{}/metrics"),
}
DURABILITY = {
    "fsync": "confirmed messages survive kill -9 and a power cut",
    "os": "confirmed messages survive kill -9, and not a power cut",
    "memory": "nothing survives the end of the process",
    "postgresql": "confirmed messages are on {guarantee}",
}


def start_screen(
    version: str, node: str, bound: Bound, user: str, data: str, storage: StorageStatus, path_prefix: str = ""
) -> str:
    """Return the start screen.

    `user` is the default user, empty if there is none; `path_prefix` is that of the user interface.
    """
    rows = [
        (SHOWN[protocol][0], SHOWN[protocol][1].format(address, prefix=path_prefix.rstrip("/")))
        for protocol, addresses in bound.items()
        if protocol in SHOWN
        for address in addresses
    ]
    if user:
        rows.append(("User", user))
    place = storage.place if storage.kind == POSTGRESQL else data or "in memory"
    rows.append(("Data", f"{place}: {DURABILITY[storage.kind].format(guarantee=storage.guarantee)}"))
    where = f"--data {data} " if data else ""
    rows.append(("Commands", f"warrenctl {where}status"))
    rows.append(("Stop", "Ctrl-C"))
    lines = [f"Warren {version} is ready: {node}", *(f"  {name:<14}{text}" for name, text in rows)]
    return "\n".join(["", *lines, ""])
