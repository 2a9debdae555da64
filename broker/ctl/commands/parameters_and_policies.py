"""Commands for runtime parameters, those of a virtual host and global ones; and for policies and operator policies."""

from ..call import Call, Item
from ..command import LISTING, PARAMETERS, POLICIES, V, in_vhost, keys
from ..errors import DATA, UNAVAILABLE, APIError, CommandError, NotFound, bad_argument, missing
from ..formats import Answer, compact


def put(call: Call, path: str, body: object) -> None:
    """Put an object; the API escapes the reason for browsers, which is undone here. Raises CommandError (65, 69)."""
    if "" in call.path(path):
        raise bad_argument("name cannot be an empty string")
    try:
        call.put(path, body)
    except APIError as error:
        if error.status != 400:
            raise
        from html import unescape  # here: its table is large

        raise CommandError(UNAVAILABLE, unescape(error.reason)) from None


def clear(call: Call, path: str) -> None:
    """Delete an object. Raises CommandError (69) if it does not exist, as none with an empty name does."""
    try:
        if "" not in call.path(path):
            call.delete(path)
            return
    except NotFound:
        pass
    raise CommandError(UNAVAILABLE, "Parameter does not exist")


def value_text(parameter: Item) -> str:
    return compact(parameter["value"])


def set_parameter(call: Call) -> None:
    component, name, text = call.arguments
    call.check_vhost()
    body = {"component": component, "vhost": call.vhost_name, "name": name, "value": call.document(text)}
    put(call, "parameters/{0}/{vhost}/{1}", body)


def clear_parameter(call: Call) -> None:
    call.check_vhost()
    clear(call, "parameters/{0}/{vhost}/{1}")


def list_parameters(call: Call) -> list[Item]:
    call.check_vhost()
    return [one for one in call.get("parameters") if one["vhost"] == call.vhost_name]


def set_global_parameter(call: Call) -> None:
    name, text = call.arguments
    put(call, "global-parameters/{0}", {"name": name, "value": call.document(text)})


SET = f"{V} [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>"
POLICY = keys("vhost name pattern apply-to") | {
    "definition": lambda policy: compact(policy["definition"]),
    "priority": lambda policy: policy["priority"],
}


def set_banner(call: Call) -> str:
    name, pattern, definition = call.arguments
    kind = "operator policy override" if "operator" in call.command else "policy"
    return (
        f'Setting {kind} "{name}" for pattern "{pattern}" to "{definition}" '
        f'with priority "{call.text("priority", "0")}" for vhost "{call.vhost_name}" ...'
    )


def set_policy(call: Call, path: str) -> None:
    _, pattern, text = call.arguments
    call.check_vhost()
    body = {
        "pattern": pattern,
        "definition": call.document(text),
        "priority": call.integer("priority", 0, -(1 << 31)),
        "apply-to": call.text("apply-to", "all"),
    }
    put(call, path, body)


def by_priority(call: Call, path: str) -> list[Item]:
    """Return policies, the lowest priority first."""
    return sorted(call.get(path), key=lambda policy: int(policy["priority"]))


def list_policies_that_match(call: Call) -> Answer:
    """List the policies that match a queue or an exchange, the best first. Raises CommandError (65)."""
    call.check_vhost()
    kind = call.text("object-type", "queue")
    text = f"{kind} '{call.arguments[0]}' was not found in virtual host '{call.vhost_name}'"
    with missing(CommandError(DATA, text)):
        return call.get("warren/matching-policies/{vhost}/{kind}/{0}", kind=kind)


# fmt: off
PARAMETERS(f"set_parameter {V} <component_name> <name> <value>: Sets a runtime parameter",
           'Setting runtime parameter "{1}" for component "{0}" to "{2}" in vhost "{vhost}" ...', set_parameter)
PARAMETERS(f"clear_parameter {V} <component_name> <name>: Clears a runtime parameter",
           'Clearing runtime parameter "{1}" for component "{0}" on vhost "{vhost}" ...', clear_parameter)
PARAMETERS(f"list_parameters {V} {LISTING}: Lists runtime parameters for a virtual host",
           'Listing runtime parameters for vhost "{vhost}" ...', list_parameters,
           columns=keys("component name", value=value_text))
PARAMETERS("set_global_parameter <name> <value>: Sets a global runtime parameter",
           'Setting global runtime parameter "{0}" to "{1}" ...', set_global_parameter)
PARAMETERS("clear_global_parameter <name>: Clears a global runtime parameter",
           'Clearing global runtime parameter "{0}" ...', lambda call: clear(call, "global-parameters/{0}"))
PARAMETERS(f"list_global_parameters {LISTING}: Lists global runtime parameters",
           "Listing global runtime parameters ...",
           lambda call: sorted(call.get("global-parameters"), key=lambda one: str(one["name"])),
           columns=keys("name", value=value_text))
POLICIES(f"set_policy {SET}: Sets or updates a policy", set_banner,
         lambda call: set_policy(call, "policies/{vhost}/{0}"))
POLICIES(f"set_operator_policy {SET}: Sets an operator policy", set_banner,
         lambda call: set_policy(call, "operator-policies/{vhost}/{0}"))
POLICIES(f"clear_policy {V} <name>: Clears a policy", 'Clearing policy "{0}" on vhost "{vhost}" ...',
         in_vhost(lambda call: clear(call, "policies/{vhost}/{0}")))
POLICIES(f"clear_operator_policy {V} <name>: Clears an operator policy",
         'Clearing operator policy "{0}" on vhost "{vhost}" ...',
         in_vhost(lambda call: clear(call, "operator-policies/{vhost}/{0}")))
POLICIES(f"list_policies {V} {LISTING}: Lists policies", 'Listing policies for vhost "{vhost}" ...',
         in_vhost(lambda call: by_priority(call, "policies/{vhost}")), columns=POLICY)
POLICIES(f"list_operator_policies {V} {LISTING}: Lists operator policies",
         'Listing operator policy overrides for vhost "{vhost}" ...',
         in_vhost(lambda call: by_priority(call, "operator-policies/{vhost}")), columns=POLICY)
POLICIES.local(f"list_policies_that_match {V} [--object-type <type>] {LISTING} <name>: "
               "Lists all policies that match a queue or an exchange",
               'Listing policies that match "{0}" in vhost "{vhost}" ...', list_policies_that_match, columns=POLICY)
