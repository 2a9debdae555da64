"""The node itself: its run, its limits, its log."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import get_args

from .. import logs
from ..config.printing import text_of
from ..config.values import Log, LogLevel
from ..core.definitions import StoredUser
from ..core.document import is_internal
from ..core.parameters import CLUSTER_NAME
from ..core.passwords import hash_password
from .call import UNAVAILABLE, USAGE, Answer, Call, Daemon, Handler, Refused, Rows, whole

LEVELS: dict[str, LogLevel] = {level: level for level in get_args(LogLevel)}
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "kb": 1000, "mb": 10**6, "gb": 10**9}
UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tb": 10**12, "tib": 1 << 40, "t": 1 << 40}


def octets(text: str) -> int:
    """Of a size such as 50MB. Raises Refused (64)."""
    digits = text.rstrip("kKmMgGtTiIbB")
    unit = text[len(digits) :].lower()
    if unit and unit not in UNITS:
        raise Refused(USAGE, f"{text} is not a size")
    return whole(digits, "the size") * UNITS.get(unit, 1)


def fraction(text: str, name: str) -> float:
    """Raises Refused (64)."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1e6:
        raise Refused(USAGE, f"{name} should be a number that is not negative, actually was {text}")
    return value


def ping(call: Call) -> str:
    return "Ping succeeded"


def await_startup(call: Call) -> None:
    """Who answers has started."""


def stop(call: Call) -> None:
    call.daemon.stop()


def suspend(daemon: Daemon) -> None:
    for listener in daemon.server.listeners:
        listener.close()
    daemon.server.listeners.clear()


def suspend_listeners(call: Call) -> None:
    suspend(call.daemon)


def resume_listeners(call: Call) -> Answer | asyncio.Future[Answer]:
    if call.daemon.server.listeners:
        return None
    return asyncio.get_running_loop().create_task(resume(call.daemon))


async def resume(daemon: Daemon) -> Answer:
    if await daemon.listen() is None:
        raise Refused(UNAVAILABLE, "cannot listen; the log says why")
    return None


def stop_app(call: Call) -> None:
    """Nobody is connected and nobody can be; what was there stays."""
    suspend(call.daemon)
    call.daemon.server.close_connections(lambda one: True, "broker forced connection closure with reason 'shutdown'")


def reset(call: Call) -> None:
    """As a new node is, with nothing but the default virtual host and user. Only while it is stopped."""
    daemon, node = call.daemon, call.node
    if daemon.server.listeners:
        raise Refused(UNAVAILABLE, "Mnesia is still running on node " + node.name + ": stop it first with stop_app")
    for name in list(node.vhosts):
        node.update_vhost(name, protected=False)
        node.delete_vhost(name)
    for user in node.users.all():
        node.users.delete(user.name)
    for name in node.parameters.globals():
        if not is_internal(name):
            node.parameters.clear_global(name)
    config = daemon.config
    node.add_vhost(config.default_vhost)
    password_hash = hash_password(config.default_pass, os.urandom(4))
    node.users.put(StoredUser(config.default_user, password_hash, config.default_user_tags))
    rights = config.default_permissions
    node.users.set_permission(config.default_user, config.default_vhost, rights.configure, rights.write, rights.read)


def set_cluster_name(call: Call) -> None:
    call.node.parameters.set_global(CLUSTER_NAME, call.arguments[0])


def set_vm_memory_high_watermark(call: Call) -> None:
    first, *rest = call.arguments
    resources = call.daemon.resources
    if first == "absolute" and rest:
        resources.set_vm_memory_high_watermark(octets(rest[0]))
    else:
        resources.set_vm_memory_high_watermark(resources.share(fraction(first, "the fraction")))


def set_disk_free_limit(call: Call) -> None:
    first, *rest = call.arguments
    resources = call.daemon.resources
    if first == "mem_relative" and rest:
        resources.set_disk_free_limit(resources.share(fraction(rest[0], "the fraction")))
    else:
        resources.set_disk_free_limit(octets(first))


def set_log_level(call: Call) -> None:
    """Of all outputs, until the next start."""
    level = LEVELS.get(call.arguments[0])
    if level is None:
        raise Refused(
            UNAVAILABLE, f"level {call.arguments[0]} is not supported. Try one of {', '.join(LEVELS)}", bare=True
        )
    log = replace(call.daemon.log, level=level, file_level=level, exchange_level=level)
    configure(call.daemon, log)


def rotate_logs(call: Call) -> None:
    """Files are opened anew, so that whoever moved one away gets a new one."""
    configure(call.daemon, call.daemon.log)


def configure(daemon: Daemon, log: Log) -> None:
    try:
        logs.configure(log, node=daemon.node.name)
    except OSError as error:
        raise Refused(UNAVAILABLE, f"cannot open the log: {error}") from None
    daemon.log = log


def environment(call: Call) -> str:
    """The configuration in force, without secrets."""
    return text_of(call.daemon.config).rstrip("\n")


def no_change(call: Call) -> None:
    """What RabbitMQ has to be told, and this broker has from the start."""


def list_feature_flags(call: Call) -> Rows:
    """There are none: every feature is there from the start."""
    return Rows(["name", "state"], [])


def list_deprecated_features(call: Call) -> Rows:
    return Rows(["name", "deprecation_phase", "provided_by", "desc"], [])


COMMANDS: dict[str, Handler] = {
    "ping": ping,
    "await_startup": await_startup,
    "wait": await_startup,
    "stop": stop,
    "shutdown": stop,
    "suspend_listeners": suspend_listeners,
    "resume_listeners": resume_listeners,
    "stop_app": stop_app,
    "start_app": resume_listeners,
    "reset": reset,
    "set_cluster_name": set_cluster_name,
    "set_vm_memory_high_watermark": set_vm_memory_high_watermark,
    "set_disk_free_limit": set_disk_free_limit,
    "set_log_level": set_log_level,
    "rotate_logs": rotate_logs,
    "environment": environment,
    "enable_feature_flag": no_change,
    "list_feature_flags": list_feature_flags,
    "list_deprecated_features": list_deprecated_features,
}
