"""Commands for virtual hosts, their metadata, limits and tracing."""

from __future__ import annotations

from ..answers import Answer, CommandError, Rows, bad_argument, json_text
from ..columns import Columns, select_columns
from ..exit_status import SOFTWARE
from .call import Call, Handler, Item

KEYS = {"description": "description", "tags": "tags", "default-queue-type": "default_queue_type"}  # by options
VHOST: Columns[Item] = {
    "name": lambda vhost: vhost["name"],
    "description": lambda vhost: vhost.get("description"),
    "tags": lambda vhost: vhost.get("tags", []),
    "default_queue_type": lambda vhost: vhost.get("default_queue_type"),
    "protected_from_deletion": lambda vhost: vhost.get("protected_from_deletion", False),
    "tracing": lambda vhost: vhost.get("tracing", False),
    "cluster_state": lambda vhost: next(iter(vhost.get("cluster_state", {}).values()), None),
    "metadata": lambda vhost: {key: vhost.get("metadata", {}).get(key) for key in ("description", "tags")},
}


def metadata(call: Call) -> dict[str, object]:
    return {key: call.options[option] for option, key in KEYS.items() if option in call.options}


def add_vhost(call: Call) -> None:
    """Create a virtual host; an existing one stays unchanged. Raises CommandError (65) for an empty name."""
    name = call.arguments[0]
    if not name:
        raise bad_argument("virtual host cannot be an empty string")
    if call.find("vhosts", name) is None:
        call.api.put("vhosts", name, body=metadata(call))


def delete_vhost(call: Call) -> None:
    name = call.arguments[0]
    call.vhost_of(name)
    call.api.delete("vhosts", name)


def update_vhost_metadata(call: Call) -> None:
    name = call.arguments[0]
    call.vhost_of(name)
    call.api.put("vhosts", name, body=metadata(call))


def set_vhost_tags(call: Call) -> None:
    name, *given = call.arguments
    call.vhost_of(name)
    call.api.put("vhosts", name, body={"tags": given})


def enable_vhost_deletion_protection(call: Call) -> None:
    call.vhost_of(call.arguments[0])
    call.api.post("vhosts", call.arguments[0], "deletion", "protection")


def disable_vhost_deletion_protection(call: Call) -> None:
    call.vhost_of(call.arguments[0])
    call.api.delete("vhosts", call.arguments[0], "deletion", "protection")


def restart_vhost(call: Call) -> str:
    """Raises CommandError (70) for an unknown virtual host."""
    name, node = call.vhost_name, call.node
    if call.find("vhosts", name) is None:
        reason = "there is no such virtual host"
        raise CommandError(SOFTWARE, f"Failed to start vhost '{name}' on node '{node}': {reason}")
    call.api.post("vhosts", name, "start", node)
    return f"Vhost '{name}' is already running on node '{node}'"


def list_vhosts(call: Call) -> Rows:
    return select_columns(VHOST, call.arguments, ("name",), call.api.get("vhosts"))


def set_vhost_limits(call: Call) -> None:
    """Set the limits in one request, as the parameter that stores them; limits left out are cleared."""
    call.vhost()
    wanted = call.limits(call.arguments[0], "limits")
    if call.is_local:
        call.api.put("warren", "vhost-limits", call.vhost_name, body={"value": wanted})
        return
    call.api.put("parameters", "vhost-limits", call.vhost_name, "limits", body={"value": wanted})


def limits_of(call: Call) -> Item:
    found = call.api.get("vhost-limits", call.vhost_name)
    return dict(found[0]["value"]) if found else {}


def clear_vhost_limits(call: Call) -> None:
    call.vhost()
    for limit in limits_of(call):
        call.api.delete("vhost-limits", call.vhost_name, limit)


def list_vhost_limits(call: Call) -> Answer:
    if call.flag("global"):
        return Rows(
            ["vhost", "limits"], ([one["vhost"], json_text(one["value"])] for one in call.api.get("vhost-limits"))
        )
    call.vhost()
    return [limits_of(call)]


def trace_on(call: Call) -> str:
    trace(call, True)
    return f"Trace enabled for vhost {call.vhost_name}"


def trace_off(call: Call) -> str:
    trace(call, False)
    return f"Trace disabled for vhost {call.vhost_name}"


def trace(call: Call, on: bool) -> None:
    call.vhost()
    call.api.put("vhosts", call.vhost_name, body={"tracing": on})


COMMANDS: dict[str, Handler] = {
    "add_vhost": add_vhost,
    "clear_vhost_limits": clear_vhost_limits,
    "delete_vhost": delete_vhost,
    "disable_vhost_deletion_protection": disable_vhost_deletion_protection,
    "enable_vhost_deletion_protection": enable_vhost_deletion_protection,
    "list_vhost_limits": list_vhost_limits,
    "list_vhosts": list_vhosts,
    "restart_vhost": restart_vhost,
    "set_vhost_limits": set_vhost_limits,
    "trace_off": trace_off,
    "trace_on": trace_on,
    "set_vhost_tags": set_vhost_tags,
    "update_vhost_metadata": update_vhost_metadata,
}
