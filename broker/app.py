"""The composition root: builds the rooms from the configuration, starts them in order and stops them in reverse."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import platform
import signal
import sys

import structlog

from .config import NO_LOGIN, Config
from .core.node import Node
from .core.ports import Clock
from .core.users import Permission, User, Users, hash_password
from .net.clock import LoopClock
from .net.server import Server
from .session.settings import Settings, server_properties
from .storage.memory import MemoryJournal

UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits: a port in use, an address that is not ours
# Collections walk every live object. Messages are counted, not traced, and form no cycles, so looking rarely is enough.
GC_THRESHOLDS = (50_000, 20, 50)

# Options of glibc's mallopt, in octets: free memory kept at the top of the heap, and blocks that never go on it.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
HEAP_KEPT = 32 << 20
HEAP_BLOCK = 4 << 20

log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def build_node(config: Config, clock: Clock) -> Node:
    """A node with the default virtual host and user, its own memory, and nothing else."""
    users = Users(frozenset(config.loopback_users))
    node = Node(config.node, config.cluster_name, clock, MemoryJournal(), users)
    node.add_vhost(config.default_vhost)
    accounts = [(config.default_user, config.default_pass, frozenset(("administrator",)))]
    if config.anonymous_login_user not in (NO_LOGIN, config.default_user):
        accounts.append((config.anonymous_login_user, config.anonymous_login_pass, frozenset()))
    for name, password, tags in accounts:
        user = User(name, hash_password(password, os.urandom(4)), tags)
        user.permissions[config.default_vhost] = Permission(".*", ".*", ".*")
        users.add(user)
    return node


def build_settings(config: Config) -> Settings:
    runs_on = f"Python {platform.python_version()}"
    anonymous = config.anonymous_login_user if config.anonymous_login_user != NO_LOGIN else None
    return Settings(
        server_properties(config.product, config.version, config.cluster_name, runs_on),
        mechanisms=tuple(config.mechanisms),
        anonymous_user=anonymous,
        channel_max=config.channel_max,
        frame_max=config.frame_max,
        heartbeat_s=config.heartbeat_s,
        initial_frame_max=config.initial_frame_max,
        max_message_size=config.max_message_size,
        connection_max=config.connection_max,
        consumer_max_per_channel=config.consumer_max_per_channel,
        default_consumer_prefetch=config.default_consumer_prefetch,
    )


def report(event: str, level: str, fields: dict[str, object]) -> None:
    """One line of the log, for rooms that do not know the logger."""
    getattr(log, level)(event, **fields)


def keep_heap() -> None:
    """Let glibc keep some freed memory. Every read is 256 KiB, and giving that back to have it mapped and zeroed again
    for the next one costs as much as all the rest of a long message (bench M: 1.6 times)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # another C library has no such option
        mallopt(M_TRIM_THRESHOLD, HEAP_KEPT)
        mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK)


async def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT; the exit status."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    node = build_node(config, LoopClock(loop))
    server = Server(node, build_settings(config), config.handshake_timeout_s, report)
    bound: list[str] = []
    for address, (host, port) in zip(config.amqp, config.amqp_addresses, strict=True):
        try:
            bound += await server.listen(host, port)
        except OSError as error:
            log.error("cannot_listen", address=address, reason=os.strerror(error.errno or 0))
            await server.stop("shutdown")
            return UNAVAILABLE
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    log.info("ready", node=config.node, amqp=bound, storage="memory", pid=os.getpid())
    await stopped.wait()
    log.info("stopping")
    await server.stop("broker forced connection closure with reason 'shutdown'")
    log.info("stopped")
    return 0


def serve(config: Config) -> int:
    """Run the daemon in the foreground; the exit status."""
    if sys.platform != "win32":
        keep_heap()
        try:
            import uvloop
        except ImportError:
            log.warning("uvloop is not installed: the broker is slower on asyncio's own loop")
        else:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(run(config))
    return asyncio.run(run(config))
