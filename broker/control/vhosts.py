"""Virtual hosts, their metadata, limits and tracing."""

from __future__ import annotations

from ..core.policies.limits import NAME, VHOST_LIMITS
from ..core.vhost.vhost import VHost
from .answers import SOFTWARE, Answer, Refused, Rows, json_text, no_vhost
from .call import Call, Handler
from .columns import Columns, listed

VHOST: Columns[VHost] = {
    "name": lambda vhost: vhost.name,
    "description": lambda vhost: vhost.metadata.description,
    "tags": lambda vhost: list(vhost.metadata.tags),
    "default_queue_type": lambda vhost: vhost.metadata.default_queue_type or "classic",
    "protected_from_deletion": lambda vhost: vhost.metadata.protected,
    "tracing": lambda vhost: vhost.firehose is not None,
    "cluster_state": lambda vhost: "running",  # one that is listed runs, there being one node
    "metadata": lambda vhost: {"description": vhost.metadata.description, "tags": list(vhost.metadata.tags)},
}


def tags(call: Call) -> list[str]:
    return [tag.strip() for tag in call.text("tags").split(",") if tag.strip()]


def add_vhost(call: Call) -> None:
    (name,) = call.arguments
    call.node.add_vhost(name, call.text("description"), tags(call), call.text("default-queue-type"))


def there(call: Call, name: str) -> str:
    """Raises Refused (65)."""
    if name not in call.node.vhosts:
        raise no_vhost(name)
    return name


def delete_vhost(call: Call) -> None:
    call.node.delete_vhost(there(call, call.arguments[0]))


def update_vhost_metadata(call: Call) -> None:
    name = there(call, call.arguments[0])
    options = call.options
    call.node.update_vhost(
        name,
        call.text("description") if "description" in options else None,
        tags(call) if "tags" in options else None,
        call.text("default-queue-type") if "default-queue-type" in options else None,
    )


def set_vhost_tags(call: Call) -> None:
    name, *given = call.arguments
    call.node.update_vhost(there(call, name), tags=given)


def enable_vhost_deletion_protection(call: Call) -> None:
    call.node.update_vhost(there(call, call.arguments[0]), protected=True)


def disable_vhost_deletion_protection(call: Call) -> None:
    call.node.update_vhost(there(call, call.arguments[0]), protected=False)


def restart_vhost(call: Call) -> str:
    """One that is there runs."""
    name, node = call.vhost_name, call.node.name
    if name not in call.node.vhosts:
        raise Refused(SOFTWARE, f"Failed to start vhost '{name}' on node '{node}': there is no such virtual host")
    return f"Vhost '{name}' is already running on node '{node}'"


def list_vhosts(call: Call) -> Rows:
    return listed(VHOST, call.arguments, ("name",), [call.node.vhosts[name] for name in sorted(call.node.vhosts)])


def set_vhost_limits(call: Call) -> None:
    call.node.limits.set_vhost(call.vhost().name, call.limits(call.arguments[0], "limits"))


def clear_vhost_limits(call: Call) -> None:
    call.node.limits.clear_vhost(call.vhost().name)


def list_vhost_limits(call: Call) -> Answer:
    if call.flag("global"):
        found = call.node.parameters.all(None, VHOST_LIMITS)
        return Rows(["vhost", "limits"], ([one.vhost, json_text(one.value)] for one in found))
    return [call.node.parameters.get(call.vhost().name, VHOST_LIMITS, NAME) or {}]


def trace_on(call: Call) -> str:
    call.node.set_tracing(call.vhost().name, True)
    return f"Trace enabled for vhost {call.vhost_name}"


def trace_off(call: Call) -> str:
    call.node.set_tracing(call.vhost().name, False)
    return f"Trace disabled for vhost {call.vhost_name}"


COMMANDS: dict[str, Handler] = {
    "add_vhost": add_vhost,
    "delete_vhost": delete_vhost,
    "set_vhost_tags": set_vhost_tags,
    "update_vhost_metadata": update_vhost_metadata,
    "enable_vhost_deletion_protection": enable_vhost_deletion_protection,
    "disable_vhost_deletion_protection": disable_vhost_deletion_protection,
    "restart_vhost": restart_vhost,
    "list_vhosts": list_vhosts,
    "set_vhost_limits": set_vhost_limits,
    "clear_vhost_limits": clear_vhost_limits,
    "list_vhost_limits": list_vhost_limits,
    "trace_on": trace_on,
    "trace_off": trace_off,
}
