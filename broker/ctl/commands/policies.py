"""Commands for policies and operator policies."""

from ..call import Call, Item
from ..command import LISTING, POLICIES, V, in_vhost, keys
from ..errors import DATA, CommandError, missing
from ..formats import Answer, compact
from .parameters import clear, put

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
