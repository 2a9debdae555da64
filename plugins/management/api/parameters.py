"""Routes for runtime parameters and global ones. Policies, which are stored as parameters, have their own routes."""

import html
from functools import partial
from typing import Any

import msgspec

from warren.broker.core.definitions.exporter import is_internal
from warren.broker.core.metadata.unfinished_import import UNFINISHED_IMPORT
from warren.broker.core.policies.limits import VHOST_LIMITS
from warren.broker.core.policies.parameters import CLUSTER_NAME, POLICY, Parameter
from warren.broker.core.policies.policies import OPERATOR_POLICY
from warren.broker.logs.redaction import HIDDEN, redacted
from warren.broker.plugin import Invalid

from ...http.auth import ADMIN, POLICIES
from ...http.responses import Response, bad, done, missing, not_now, ok, put
from ..framework.bodies import CostlyBody
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import LONG_BODY_BYTES, route
from .policies import PolicyBody, check_operator_policies, compiled_of


class ParameterBody(CostlyBody):
    """A value, which may be that of an operator policy."""

    thread_from = PolicyBody.thread_from

    value: Any

    def prepare(self) -> None:
        if isinstance(self.value, dict):
            self.__dict__["compiled"] = compiled_of(self.value.get("pattern"), self.value.get("definition"))


class ParameterView(msgspec.Struct):
    """A runtime parameter."""

    vhost: str
    component: str
    name: str
    value: object


def parameter_view(request: Request, one: Parameter) -> ParameterView:
    return ParameterView(one.vhost, one.component, one.name, visible_value(request, one.name, one.value))


def visible_value(request: Request, name: str, value: object) -> object:
    """Return the value for the caller: only administrators see passwords, such as those in URIs of upstreams."""
    return value if request.caller.administers else redacted(name, value)


def check_whole(value: object) -> None:
    """Raises HTTPError (400) for a value with the placeholder of a hidden password."""
    if isinstance(value, str) and HIDDEN in value:
        raise bad(f"the value has {HIDDEN} in place of a password, which has to be given again")
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            check_whole(inner)


@route("GET", POLICIES, "/parameters", "/parameters/{component}", "/parameters/{component}/{vhost}")
def list_parameters(request: Request) -> Listing[ParameterView]:
    """List the parameters in the virtual hosts that the user may enter, of one component or all but policies."""
    component, vhosts = request.path.get("component"), {vhost.name for vhost in request.vhosts()}
    there = [one for one in request.node.parameters.unsorted() if one.vhost in vhosts]
    listed = [one for one in there if (one.component != POLICY if component is None else one.component == component)]
    return Listing(listed, partial(parameter_view, request), order=lambda one: (one.vhost, one.component, one.name))


def find_parameter(request: Request) -> Parameter:
    """Return the parameter in the path. Raises HTTPError (404)."""
    component, name = request.path["component"], request.path["name"]
    parameter = request.node.parameters.find(request.path_vhost().name, component, name)
    if parameter is None or component == POLICY:
        raise missing()
    return parameter


@route("GET", POLICIES, "/parameters/{component}/{vhost}/{name}")
def get_parameter(request: Request) -> Response[ParameterView]:
    """Return one parameter."""
    return ok(parameter_view(request, find_parameter(request)))


def check_component(request: Request, component: str) -> None:
    """Check the right to change parameters of a component, as its own routes do. Raises HTTPError (401, 405)."""
    if component == OPERATOR_POLICY:
        check_operator_policies(request)
    elif component == VHOST_LIMITS:
        ADMIN.check(request.caller, None)


@route("PUT", POLICIES, "/parameters/{component}/{vhost}/{name}", body_limit=LONG_BODY_BYTES)
def put_parameter(request: Request, body: ParameterBody) -> Response[None]:
    """Set a parameter, which its component applies immediately."""
    component, name = request.path["component"], request.path["name"]
    check_component(request, component)
    check_whole(body.value)
    vhost = request.path_vhost().name
    try:
        new = request.node.parameters.set(vhost, component, name, body.value, request.check_space)
    except Invalid as error:
        raise bad(html.escape(error.text, quote=False)) from None  # as RabbitMQ, which escapes it for browsers
    return put(not new)


@route("DELETE", POLICIES, "/parameters/{component}/{vhost}/{name}")
def delete_parameter(request: Request) -> Response[None]:
    """Clear a parameter, which its component applies immediately."""
    one = find_parameter(request)
    check_component(request, one.component)
    request.node.parameters.clear(one.vhost, one.component, one.name)
    return done()


# Global parameters.


class GlobalParameterView(msgspec.Struct):
    """A global parameter."""

    name: str
    value: object


def global_parameter_view(request: Request, pair: tuple[str, object]) -> GlobalParameterView:
    return GlobalParameterView(pair[0], visible_value(request, *pair))


@route("GET", POLICIES, "/global-parameters")
def list_globals(request: Request) -> Listing[GlobalParameterView]:
    """List the global parameters."""
    pairs = list(request.node.parameters.globals().items())
    return Listing(pairs, partial(global_parameter_view, request), order=lambda pair: pair[0])


def find_global(request: Request) -> tuple[str, object]:
    """Return name and value of the parameter in the path. Raises HTTPError (404)."""
    name, parameters = request.path["name"], request.node.parameters
    if not parameters.has_global(name):
        raise missing()
    return name, parameters.get_global(name)


@route("GET", POLICIES, "/global-parameters/{name}")
def get_global(request: Request) -> Response[GlobalParameterView]:
    """Return one global parameter."""
    return ok(global_parameter_view(request, find_global(request)))


def check_name(request: Request, name: str) -> None:
    """Raises HTTPError (401) for parameters of the broker itself, which administrators change.

    The cluster's name is changed at its own route too; the hash is of the definitions that need not be imported again.
    """
    if name == CLUSTER_NAME or is_internal(name):
        ADMIN.check(request.caller, None)


@route("PUT", POLICIES, "/global-parameters/{name}", body_limit=LONG_BODY_BYTES)
def put_global(request: Request, body: ParameterBody) -> Response[None]:
    """Set a global parameter."""
    check_name(request, request.path["name"])
    check_whole(body.value)
    new = request.node.parameters.set_global(request.path["name"], body.value, request.check_space)
    return put(not new)


@route("DELETE", POLICIES, "/global-parameters/{name}")
def delete_global(request: Request) -> Response[None]:
    """Clear a global parameter."""
    name, _ = find_global(request)
    check_name(request, name)
    if name == UNFINISHED_IMPORT and request.host.imports.under_way:
        raise not_now("an import of definitions is under way, which clears it at its end")
    request.node.parameters.clear_global(name)
    return done()
