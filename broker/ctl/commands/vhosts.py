"""Commands for virtual hosts: metadata, limits, tracing, deletion protection."""

from ..call import Call
from ..command import CHECKS, COLUMNS, LISTING, NODES, VHOSTS, V, columns, get
from ..errors import SOFTWARE, CommandError, bad_argument, no_vhost
from ..formats import Answer, Rows, compact

METADATA = "[--description <description>] [--tags <tags>] [--default-queue-type <type>]"

VHOST = {
    "name": lambda vhost: vhost["name"],
    **columns("description"),
    "tags": lambda vhost: vhost.get("tags", []),
    **columns("default_queue_type"),
    "protected_from_deletion": lambda vhost: vhost.get("protected_from_deletion", False),
    "tracing": lambda vhost: vhost.get("tracing", False),
    "cluster_state": lambda vhost: next(iter(vhost.get("cluster_state", {}).values()), None),
    "metadata": lambda vhost: {key: vhost.get("metadata", {}).get(key) for key in ("description", "tags")},
}


def metadata(call: Call) -> dict[str, object]:
    options = ("description", "tags", "default-queue-type")
    return {option.replace("-", "_"): call.options[option] for option in options if option in call.options}


def add_vhost(call: Call) -> None:
    """Create a virtual host; an existing one stays unchanged. Raises CommandError (65) for an empty name."""
    if not call.arguments[0]:
        raise bad_argument("virtual host cannot be an empty string")
    if call.find("vhosts/{0}") is None:
        call.put("vhosts/{0}", metadata(call))


def change(call: Call, method: str, path: str = "vhosts/{0}", body: object = None) -> None:
    """Send a request about the virtual host that the first argument names. Raises CommandError (65)."""
    if call.find("vhosts/{0}") is None:
        raise no_vhost(call.arguments[0])
    call.api.request(method, call.path(path), body)


def restart_vhost(call: Call) -> str:
    """Raises CommandError (70) for an unknown virtual host."""
    if call.find("vhosts/{vhost}") is None:
        text = f"Failed to start vhost '{call.vhost_name}' on node '{call.node}': there is no such virtual host"
        raise CommandError(SOFTWARE, text)
    call.post("vhosts/{vhost}/start/{node}")
    return f"Vhost '{call.vhost_name}' is already running on node '{call.node}'"


def check_virtual_hosts(call: Call) -> str:
    call.check_health("virtual-hosts")
    return f"Node {call.node} reported all vhosts as running"


def set_vhost_limits(call: Call) -> None:
    """Set the limits in one request, as the parameter that stores them; limits left out are cleared."""
    call.check_vhost()
    limits = call.limits(call.arguments[0], "limits")
    path = "warren/vhost-limits/{vhost}" if call.api.is_local else "parameters/vhost-limits/{vhost}/limits"
    call.put(path, {"value": limits})


def clear_vhost_limits(call: Call) -> None:
    call.check_vhost()
    for limit in call.limits_at("vhost-limits/{vhost}"):
        call.delete("vhost-limits/{vhost}/{limit}", limit=limit)


def list_limits_banner(call: Call) -> str:
    whose = "all vhosts" if call.flag("global") else f'vhost "{call.vhost_name}"'
    return f"Listing limits for {whose} ..."


def list_vhost_limits(call: Call) -> Answer:
    if call.flag("global"):
        return Rows(["vhost", "limits"], ([one["vhost"], compact(one["value"])] for one in call.get("vhost-limits")))
    call.check_vhost()
    return [call.limits_at("vhost-limits/{vhost}")]


def trace(call: Call, on: bool) -> str:
    call.check_vhost()
    call.put("vhosts/{vhost}", {"tracing": on})
    return f"Trace {'enabled' if on else 'disabled'} for vhost {call.vhost_name}"


# fmt: off
VHOSTS(f"list_vhosts {COLUMNS}: Lists virtual hosts", "Listing vhosts ...", get("vhosts"), columns=VHOST,
       default="name")
VHOSTS(f"add_vhost {METADATA} <vhost>: Creates a virtual host", 'Adding vhost "{0}" ...', add_vhost)
VHOSTS("delete_vhost <vhost>: Deletes a virtual host", 'Deleting vhost "{0}" ...', lambda call: change(call, "DELETE"))
VHOSTS(f"update_vhost_metadata {METADATA} <vhost>: Updates description, tags and default queue type of a virtual host",
       'Updating metadata of vhost "{0}" ...', lambda call: change(call, "PUT", body=metadata(call)))
VHOSTS("set_vhost_tags <vhost> <tag>...: Sets tags of a virtual host",
       lambda call: f'Setting tags for virtual host "{call.arguments[0]}" to [{", ".join(call.arguments[1:])}] ...',
       lambda call: change(call, "PUT", body={"tags": call.arguments[1:]}))
VHOSTS("enable_vhost_deletion_protection <vhost>: Protects a virtual host from deletion",
       'Protecting virtual host "{0}" from deletion ...',
       lambda call: change(call, "POST", "vhosts/{0}/deletion/protection", {}))
VHOSTS("disable_vhost_deletion_protection <vhost>: Lets a virtual host be deleted again",
       'Removing deletion protection from virtual host "{0}" ...',
       lambda call: change(call, "DELETE", "vhosts/{0}/deletion/protection"))
VHOSTS(f"restart_vhost {V}: Restarts a failed virtual host", "Trying to restart vhost '{vhost}' on node '{node}' ...",
       restart_vhost)
NODES("reconcile_vhosts: Does nothing: virtual hosts run as long as the node",
      "Will try to initiate virtual host reconciliation on all reachable cluster nodes...")
CHECKS("check_virtual_hosts: Fails if a virtual host is down", "Checking if all vhosts are running on node {node} ...",
       check_virtual_hosts)
VHOSTS(f"set_vhost_limits {V} <definition>: Sets virtual host limits",
       'Setting vhost limits to "{0}" for vhost "{vhost}" ...', set_vhost_limits)
VHOSTS(f"clear_vhost_limits {V}: Clears the limits of a virtual host", 'Clearing vhost "{vhost}" limits ...',
       clear_vhost_limits)
VHOSTS(f"list_vhost_limits {V} [--global] {LISTING}: Displays limits of virtual hosts",
       list_limits_banner, list_vhost_limits)
VHOSTS(f"trace_on {V}: Enables message tracing", 'Starting tracing for vhost "{vhost}" ...',
       lambda call: trace(call, True))
VHOSTS(f"trace_off {V}: Disables message tracing", 'Stopping tracing for vhost "{vhost}" ...',
       lambda call: trace(call, False))
