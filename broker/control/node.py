"""The node itself: its run, its limits, its log."""

from __future__ import annotations

from ..core.definitions.exporter import is_internal
from ..core.policies.parameters import CLUSTER_NAME
from ..hosting import services
from ..hosting.default_user import default_user
from ..hosting.feature_flags import DEPRECATED_FEATURES, FEATURES
from .answers import UNAVAILABLE, USAGE, Answer, Refused, Rows, bad_argument
from .call import Call, Daemon, Handler
from .columns import Columns, listed

UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "kb": 1000, "mb": 10**6, "gb": 10**9}
UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tb": 10**12, "tib": 1 << 40, "t": 1 << 40}


FEATURE: Columns[tuple[str, str]] = {
    "name": lambda feature: feature[0],
    "state": lambda feature: "enabled",
    "stability": lambda feature: "stable",
    "provided_by": lambda feature: "rabbit",
    "desc": lambda feature: feature[1],
    "doc_url": lambda feature: "",
}


def octets(text: str) -> int:
    """Of a size such as 50MB. Raises Refused (65)."""
    digits = text.rstrip("kKmMgGtTiIbB")
    unit = text[len(digits) :].lower()
    if not (digits.isascii() and digits.isdecimal()):
        raise bad_argument()
    if unit and unit not in UNITS:
        raise bad_argument("Invalid units.")
    return int(digits) * UNITS.get(unit, 1)


def fraction(text: str) -> float:
    """Raises Refused (65)."""
    try:
        value = float(text)
    except ValueError:
        raise bad_argument() from None
    if not 0.0 <= value < 1e6:
        raise bad_argument()
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


async def resume_listeners(call: Call) -> Answer:
    if not call.daemon.server.listeners and await call.daemon.listen() is None:
        raise Refused(UNAVAILABLE, "cannot listen; the log says why")
    return None


async def stop_app(call: Call) -> Answer:
    """Stop listeners, services and connections, so that nobody is served but at the control socket. Data stay."""
    suspend(call.daemon)
    if not call.daemon.app_is_stopped:
        call.daemon.app_is_stopped = True
        await services.stop(call.host)
    call.host.close_connections(lambda one: True, "broker forced connection closure with reason 'shutdown'")
    return None


async def start_app(call: Call) -> Answer:
    """Start what `stop_app` has stopped. Raises Refused (69) where a listener or service cannot start."""
    await resume_listeners(call)
    if call.daemon.app_is_stopped:
        if not await call.daemon.start_services():
            raise Refused(UNAVAILABLE, "a service cannot start; the log says why")
        call.daemon.app_is_stopped = False
    return None


def reset(call: Call) -> None:
    """Delete all that is stored and make the default virtual host and user, as for a new node.

    Raises Refused (69) while the application runs: a client that is still connected would go on with what is deleted.
    """
    daemon, node = call.daemon, call.node
    if not daemon.app_is_stopped:
        raise Refused(UNAVAILABLE, "Mnesia is still running on node " + node.name + ": stop it first with stop_app")
    for name in list(node.vhosts):
        node.update_vhost(name, protected=False)
        node.delete_vhost(name)
    for user in node.users.all():
        node.users.delete(user.name)
    for name in node.parameters.globals():
        if not is_internal(name):
            node.parameters.clear_global(name)
    config = daemon.host.config
    node.add_vhost(config.default_vhost)
    node.users.put(default_user(config, daemon.host.report))
    rights = config.default_permissions
    node.users.set_permission(config.default_user, config.default_vhost, rights.configure, rights.write, rights.read)


def set_cluster_name(call: Call) -> None:
    call.node.parameters.set_global(CLUSTER_NAME, call.arguments[0])


def set_vm_memory_high_watermark(call: Call) -> None:
    """Raises Refused (64, 65)."""
    first, *rest = call.arguments
    resources = call.host.resources
    if first == "absolute":
        resources.set_vm_memory_high_watermark(octets(given(rest)))
        return
    share = fraction(first)
    if share > 1.0:
        raise bad_argument("The threshold should be a fraction between 0.0 and 1.0")
    resources.set_vm_memory_high_watermark(resources.share(share))


def set_disk_free_limit(call: Call) -> None:
    """Raises Refused (64, 65)."""
    first, *rest = call.arguments
    resources = call.host.resources
    if first == "mem_relative":
        resources.set_disk_free_limit(resources.share(fraction(given(rest))))
    else:
        resources.set_disk_free_limit(octets(first))


def given(rest: list[str]) -> str:
    """What has to follow. Raises Refused (64)."""
    if not rest:
        raise Refused(USAGE, "not enough arguments.", argument=True)
    return rest[0]


def environment(call: Call) -> str:
    """The configuration in force, without secrets."""
    return call.host.configuration().rstrip("\n")


def enable_feature_flag(call: Call) -> None:
    """All are enabled from the start. Raises Refused (64) for one that there is not."""
    name = call.arguments[0]
    if name not in (*FEATURES, "all"):
        raise Refused(USAGE, f"This feature flag is not supported by node {call.node.name}")


def list_feature_flags(call: Call) -> Rows:
    return listed(FEATURE, call.arguments, ("name", "state"), FEATURES.items())


def list_deprecated_features(call: Call) -> Rows:
    rows: list[list[object]] = [[name, phase, provider, ""] for name, phase, provider, _ in DEPRECATED_FEATURES]
    return Rows(["name", "deprecation_phase", "provided_by", "desc"], rows)


COMMANDS: dict[str, Handler] = {
    "ping": ping,
    "await_startup": await_startup,
    "wait": await_startup,
    "stop": stop,
    "shutdown": stop,
    "suspend_listeners": suspend_listeners,
    "resume_listeners": resume_listeners,
    "stop_app": stop_app,
    "start_app": start_app,
    "reset": reset,
    "set_cluster_name": set_cluster_name,
    "set_vm_memory_high_watermark": set_vm_memory_high_watermark,
    "set_disk_free_limit": set_disk_free_limit,
    "environment": environment,
    "enable_feature_flag": enable_feature_flag,
    "list_feature_flags": list_feature_flags,
    "list_deprecated_features": list_deprecated_features,
}
