"""Runtime parameters, and the policies made of them."""

from __future__ import annotations

from ..core.metadata.policy import Policy
from ..core.policies.parameters import POLICY
from .answers import DATA, Refused, Rows, json_text
from .call import Call, Handler

POLICY_COLUMNS = ["vhost", "name", "pattern", "apply-to", "definition", "priority"]


def set_parameter(call: Call) -> None:
    component, name, text = call.arguments
    call.node.parameters.set(call.vhost().name, component, name, call.document(text))


def clear_parameter(call: Call) -> None:
    component, name = call.arguments
    call.node.parameters.clear(call.vhost().name, component, name)


def list_parameters(call: Call) -> Rows:
    found = [one for one in call.node.parameters.all(call.vhost().name) if one.component != POLICY]
    return Rows(["component", "name", "value"], ([one.component, one.name, json_text(one.value)] for one in found))


def set_global_parameter(call: Call) -> None:
    name, text = call.arguments
    call.node.parameters.set_global(name, call.document(text))


def clear_global_parameter(call: Call) -> None:
    call.node.parameters.clear_global(call.arguments[0])


def list_global_parameters(call: Call) -> Rows:
    found = sorted(call.node.parameters.globals().items())
    return Rows(["name", "value"], ([name, json_text(value)] for name, value in found))


def set_policy(call: Call) -> None:
    name, pattern, text = call.arguments
    apply_to = call.text("apply-to", "all")
    definition, priority = call.document(text), call.whole("priority", 0, -(1 << 31))
    call.node.policies.set(call.vhost().name, name, pattern, definition, priority, apply_to, call.is_operators)


def clear_policy(call: Call) -> None:
    call.node.policies.clear(call.vhost().name, call.arguments[0], call.is_operators)


def list_policies(call: Call) -> Rows:
    return Rows(POLICY_COLUMNS, map(row_of, call.node.policies.all(call.vhost().name, call.is_operators)))


def list_policies_that_match(call: Call) -> Rows:
    """By the name of a queue or an exchange, the best first."""
    (name,) = call.arguments
    vhost, kind = call.vhost(), call.text("object-type", "queue")
    target = vhost.queues.get(name) if kind == "queue" else vhost.exchanges.get(name)
    if target is None:
        raise Refused(DATA, f"{kind} '{name}' was not found in virtual host '{vhost.name}'")
    return Rows(POLICY_COLUMNS, map(row_of, call.node.policies.matching(target)))


def row_of(policy: Policy) -> list[object]:
    definition = json_text(dict(policy.definition))
    return [policy.vhost, policy.name, policy.pattern, policy.apply_to, definition, policy.priority]


COMMANDS: dict[str, Handler] = {
    "set_parameter": set_parameter,
    "clear_parameter": clear_parameter,
    "list_parameters": list_parameters,
    "set_global_parameter": set_global_parameter,
    "clear_global_parameter": clear_global_parameter,
    "list_global_parameters": list_global_parameters,
    "set_policy": set_policy,
    "set_operator_policy": set_policy,
    "clear_policy": clear_policy,
    "clear_operator_policy": clear_policy,
    "list_policies": list_policies,
    "list_operator_policies": list_policies,
    "list_policies_that_match": list_policies_that_match,
}
