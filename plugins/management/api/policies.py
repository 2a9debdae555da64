"""Routes for policies and operator policies."""

import html
from functools import WRAPPER_ASSIGNMENTS, partial, update_wrapper
from typing import Any, TypedDict, cast

from warren.broker.core.definitions.exporter import policy_document
from warren.broker.core.metadata.patterns import checked
from warren.broker.core.metadata.policy import Policy
from warren.broker.plugin import Invalid

from ...http.auth import ADMIN, POLICIES, VHOST, Guard
from ...http.responses import HTTPError, Response, bad, done, existing, ok, put
from ..framework.bodies import CostlyBody
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import LONG_BODY_BYTES, Handler, route


class PolicyBody(CostlyBody, rename="kebab"):
    """A policy; values of any type are accepted here: the broker checks them with RabbitMQ's error texts."""

    thread_from = 512  # a long pattern takes 0.1 s to compile

    pattern: Any
    definition: Any
    priority: Any = 0
    apply_to: Any = "all"

    def prepare(self) -> None:
        """Compile the patterns, which are kept until the policy is set. The broker reports invalid ones."""
        self.__dict__["compiled"] = compiled_of(self.pattern, self.definition)


def compiled_of(pattern: object, definition: object) -> list[object]:
    """Return the compiled patterns of a policy, which the cache holds while they are referenced."""
    inner = definition.get("federation-upstream-pattern") if isinstance(definition, dict) else None
    return [checked(pattern), checked(inner)]


PolicyView = TypedDict(
    "PolicyView",
    {"vhost": str, "name": str, "pattern": str, "apply-to": str, "definition": dict[str, object], "priority": int},
)


def policy_view(policy: Policy) -> PolicyView:
    return cast(PolicyView, {"vhost": policy.vhost, **policy_document(policy)})


def list_policies(request: Request, operator: bool) -> Listing[PolicyView]:
    """List the policies in the virtual hosts that the user sees, the lowest priority first."""
    all_ = [policy for vhost in request.vhosts() for policy in request.node.policies.all(vhost.name, operator)]
    return Listing(all_, policy_view)


def find_policy(request: Request, operator: bool) -> Policy:
    """Return the policy in the path. Raises HTTPError (404)."""
    return existing(request.node.policies.get(request.path_vhost().name, request.path["name"], operator))


def get_policy(request: Request, operator: bool) -> Response[PolicyView]:
    """Return one policy."""
    return ok(policy_view(find_policy(request, operator)))


def check_operator_policies(request: Request) -> None:
    """Check that the caller may change operator policies, which limit policymakers.

    Raises HTTPError (401 without the tag administrator, 405 if the configuration disallows changes over TCP).
    """
    ADMIN.check(request.caller, None)
    if request.host.config.management.operator_policy_changes_disabled and not request.caller.is_local:
        raise HTTPError(405, "method_not_allowed", "Broker settings disallow editing of operator policies.")


def put_policy(request: Request, body: PolicyBody, operator: bool) -> Response[None]:
    """Set a policy, which applies immediately."""
    if operator:
        check_operator_policies(request)
    vhost, name = request.path_vhost().name, request.path["name"]
    fields = (body.pattern, body.definition, body.priority, body.apply_to)
    try:
        new = request.node.policies.set(vhost, name, *fields, operator, request.check_space)
    except Invalid as error:
        # RabbitMQ escapes the reasons for browsers, except the reasons of operator policies.
        raise bad(error.text if operator else html.escape(error.text, quote=False)) from None
    return put(not new)


def delete_policy(request: Request, operator: bool) -> Response[None]:
    """Clear a policy; the one with the next priority applies immediately."""
    if operator:
        check_operator_policies(request)
    policy = find_policy(request, operator)
    request.node.policies.clear(policy.vhost, policy.name, operator)
    return done()


def handler_of(handler: Handler, operator: bool) -> Handler:
    """Return the handler for policies or for operator policies."""
    copied = (*WRAPPER_ASSIGNMENTS, "__annotations__")  # Python 3.14 does not copy those by itself
    return update_wrapper(partial(handler, operator=operator), handler, copied)


def add_routes(path: str, operator: bool, writing: Guard) -> None:
    one = path + "/{vhost}/{name}"
    route("GET", VHOST, path, path + "/{vhost}")(handler_of(list_policies, operator))
    route("GET", writing, one)(handler_of(get_policy, operator))
    route("PUT", writing, one, body_limit=LONG_BODY_BYTES)(handler_of(put_policy, operator))
    route("DELETE", writing, one)(handler_of(delete_policy, operator))


add_routes("/policies", False, POLICIES)
add_routes("/operator-policies", True, ADMIN)
