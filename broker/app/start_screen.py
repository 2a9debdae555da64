"""The start screen: printed on a terminal once the broker is ready."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence

from ..core.messages.journal_port import POSTGRESQL, StorageStatus

Bound = Mapping[str, Sequence[str]]
"""Addresses, HOST:PORT or the path of a socket, by RabbitMQ's name of the protocol."""

# protocol, of AMQP or in RabbitMQ's words -> label, and format of the address for a browser or client
SHOWN = {
    "amqp": ("AMQP", "amqp://{}"),
    "amqps": ("AMQP with TLS", "amqps://{}"),
    "http": ("Browser", "http://{}{prefix}/"),
    "https": ("Browser", "https://{}{prefix}/"),
    "http/prometheus": ("Metrics", "http://{}/metrics"),
    "https/prometheus": ("Metrics", "https://{}/metrics"),
}
EVERY_INTERFACE = ("[::]", "0.0.0.0")
EMPTY: Mapping[str, str] = {}
DURABILITY = {
    "fsync": "confirmed messages survive kill -9 and a power cut",
    "os": "confirmed messages survive kill -9, and not a power cut",
    "memory": "nothing survives the end of the process",
    "postgresql": "confirmed messages are on {guarantee}",
}


def start_screen(
    version: str,
    node: str,
    bound: Bound,
    user: str,
    data: str,
    storage: StorageStatus,
    path_prefix: str = "",
    not_listening: Mapping[str, str] = EMPTY,
    secret_of: str = "",
) -> str:
    """Return the start screen.

    `user` is the default user, empty if there is none; `secret_of` is its name if its password is not known;
    `path_prefix` is that of the user interface; `not_listening` are protocols that are not served, with the reason.
    """
    rows = [
        (SHOWN[protocol][0], url(SHOWN[protocol][1], address, path_prefix.rstrip("/")))
        for protocol, addresses in bound.items()
        if protocol in SHOWN
        for address in addresses
    ]
    rows += [(SHOWN[protocol][0], reason) for protocol, reason in not_listening.items()]
    folders = [data] if data else [os.path.dirname(path) for path in bound.get("control", ())]
    warrenctl = " ".join([command("warrenctl"), *(f"--data {shlex.quote(folder)}" for folder in folders)])
    if user:
        rows.append(("User", user))
    if secret_of:
        change = f"{warrenctl} change_password {shlex.quote(secret_of)} PASSWORD"
        rows.append(("Password", f"as configured or printed at the first start, or set since; {change} sets another"))
    place = storage.place if storage.kind == POSTGRESQL else data or "in memory"
    rows.append(("Data", f"{place}: {DURABILITY[storage.kind].format(guarantee=storage.guarantee)}"))
    rows.append(("Commands", f"{warrenctl} status"))
    rows.append(("Stop", "Ctrl-C"))
    lines = [f"Warren {version} is ready: {node}", *(f"  {name:<14}{text}" for name, text in rows)]
    return "\n".join(["", *lines, ""])


def url(form: str, address: str, prefix: str) -> str:
    """Return the URL of an address, by which a browser or client on this machine reaches it."""
    host, _, port = address.rpartition(":")
    if host in EVERY_INTERFACE:
        return f"{form.format(f'localhost:{port}', prefix=prefix)}, and at every other address of this machine"
    return form.format(address, prefix=prefix)


def command(name: str) -> str:
    """Return how a shell calls a command of this environment: by its name if that is found, else by its path."""
    own = os.path.join(os.path.dirname(sys.executable), name)
    found = shutil.which(name)
    if not os.path.exists(own) or (found is not None and os.path.samefile(found, own)):
        return name
    return shlex.quote(own)
