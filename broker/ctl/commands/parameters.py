"""Commands for runtime parameters and policies."""

from __future__ import annotations

import html

from ..answers import CommandError, Rows, bad_argument, json_text
from ..api_client import APIError, NotFound
from ..exit_status import DATA, UNAVAILABLE
from .call import Call, Handler, Item

POLICY = ("vhost", "name", "pattern", "apply-to", "definition", "priority")
NO_PARAMETER = "Parameter does not exist"


def put(call: Call, *path: str, body: object) -> None:
    """Put an object; the API escapes the reason for browsers, which is undone here. Raises CommandError (65, 69)."""
    if "" in path:
        raise bad_argument("name cannot be an empty string")
    try:
        call.api.put(*path, body=body)
    except APIError as error:
        if error.status != 400:
            raise
        raise CommandError(UNAVAILABLE, html.unescape(error.reason)) from None


def clear(call: Call, *path: str) -> None:
    """Delete an object. Raises CommandError (69) if it does not exist, as none with an empty name does."""
    try:
        if "" not in path:
            call.api.delete(*path)
            return
    except NotFound:
        pass
    raise CommandError(UNAVAILABLE, NO_PARAMETER)


def set_parameter(call: Call) -> None:
    component, name, text = call.arguments
    call.vhost()
    body = {"component": component, "vhost": call.vhost_name, "name": name, "value": call.document(text)}
    put(call, "parameters", component, call.vhost_name, name, body=body)


def clear_parameter(call: Call) -> None:
    component, name = call.arguments
    call.vhost()
    clear(call, "parameters", component, call.vhost_name, name)


def list_parameters(call: Call) -> Rows:
    call.vhost()
    found = [one for one in call.api.get("parameters") if one["vhost"] == call.vhost_name]
    return Rows(
        ["component", "name", "value"], ([one["component"], one["name"], json_text(one["value"])] for one in found)
    )


def set_global_parameter(call: Call) -> None:
    name, text = call.arguments
    put(call, "global-parameters", name, body={"name": name, "value": call.document(text)})


def clear_global_parameter(call: Call) -> None:
    clear(call, "global-parameters", call.arguments[0])


def list_global_parameters(call: Call) -> Rows:
    found = sorted(call.api.get("global-parameters"), key=lambda one: str(one["name"]))
    return Rows(["name", "value"], ([one["name"], json_text(one["value"])] for one in found))


def kind(call: Call) -> str:
    return "operator-policies" if call.is_operators else "policies"


def set_policy(call: Call) -> None:
    name, pattern, text = call.arguments
    call.vhost()
    body = {
        "pattern": pattern,
        "definition": call.document(text),
        "priority": call.integer("priority", 0, -(1 << 31)),
        "apply-to": call.text("apply-to", "all"),
    }
    put(call, kind(call), call.vhost_name, name, body=body)


def clear_policy(call: Call) -> None:
    call.vhost()
    clear(call, kind(call), call.vhost_name, call.arguments[0])


def list_policies(call: Call) -> Rows:
    """List policies, the lowest priority first."""
    call.vhost()
    found = sorted(call.api.get(kind(call), call.vhost_name), key=lambda one: int(one["priority"]))
    return Rows(list(POLICY), (row_of(one) for one in found))


def row_of(policy: Item) -> list[object]:
    shown = {**policy, "definition": json_text(policy["definition"])}
    return [shown[column] for column in POLICY]


def list_policies_that_match(call: Call) -> Rows:
    """List the policies that match a queue or an exchange, the best first. Raises CommandError (65)."""
    (name,) = call.arguments
    call.vhost()
    kind = call.text("object-type", "queue")
    try:
        policies = call.api.get("warren", "matching-policies", call.vhost_name, kind, name)
    except NotFound:
        raise CommandError(DATA, f"{kind} '{name}' was not found in virtual host '{call.vhost_name}'") from None
    return Rows(list(POLICY), (row_of(one) for one in policies))


COMMANDS: dict[str, Handler] = {
    "clear_global_parameter": clear_global_parameter,
    "clear_operator_policy": clear_policy,
    "clear_parameter": clear_parameter,
    "clear_policy": clear_policy,
    "list_global_parameters": list_global_parameters,
    "list_operator_policies": list_policies,
    "list_parameters": list_parameters,
    "list_policies": list_policies,
    "list_policies_that_match": list_policies_that_match,
    "set_global_parameter": set_global_parameter,
    "set_operator_policy": set_policy,
    "set_parameter": set_parameter,
    "set_policy": set_policy,
}
