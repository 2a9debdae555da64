"""Routes for global parameters."""

from __future__ import annotations

from functools import partial

import msgspec

from warren.broker.core.definitions.exporter import is_internal
from warren.broker.core.metadata.unfinished_import import UNFINISHED_IMPORT
from warren.broker.core.policies.parameters import CLUSTER_NAME

from ...http.auth import ADMIN, POLICIES
from ...http.responses import Response, done, missing, not_now, ok, put
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import LONG_BODY_BYTES, Route
from .parameters import ParameterBody, check_whole, visible_value


class GlobalParameterView(msgspec.Struct):
    """A global parameter."""

    name: str
    value: object


def global_parameter_view(request: Request, pair: tuple[str, object]) -> GlobalParameterView:
    return GlobalParameterView(pair[0], visible_value(request, *pair))


def list_globals(request: Request) -> Listing[GlobalParameterView]:
    """List the global parameters."""
    return Listing(
        list(request.node.parameters.globals().items()),
        partial(global_parameter_view, request),
        order=lambda pair: pair[0],
    )


def find_global(request: Request) -> tuple[str, object]:
    """Return name and value of the parameter in the path. Raises HTTPError (404)."""
    name, parameters = request.path["name"], request.node.parameters
    if not parameters.has_global(name):
        raise missing()
    return name, parameters.get_global(name)


def get_global(request: Request) -> Response[GlobalParameterView]:
    """Return one global parameter."""
    return ok(global_parameter_view(request, find_global(request)))


def check_name(request: Request, name: str) -> None:
    """Raises HTTPError (401) for parameters of the broker itself, which administrators change.

    The cluster's name is changed at its own route too; the hash says which definitions need not be imported again.
    """
    if name == CLUSTER_NAME or is_internal(name):
        ADMIN.check(request.caller, None)


def put_global(request: Request) -> Response[None]:
    """Set a global parameter."""
    body: ParameterBody = request.body
    check_name(request, request.path["name"])
    check_whole(body.value)
    new = request.node.parameters.set_global(request.path["name"], body.value, request.check_space)
    return put(not new)


def delete_global(request: Request) -> Response[None]:
    """Clear a global parameter."""
    name, _ = find_global(request)
    check_name(request, name)
    if name == UNFINISHED_IMPORT and request.host.imports.under_way:
        raise not_now("an import of definitions is under way, which clears it at its end")
    request.node.parameters.clear_global(name)
    return done()


ROUTES = (
    Route("GET", "/global-parameters", POLICIES, list_globals),
    Route("GET", "/global-parameters/{name}", POLICIES, get_global),
    Route("PUT", "/global-parameters/{name}", POLICIES, put_global, ParameterBody, LONG_BODY_BYTES),
    Route("DELETE", "/global-parameters/{name}", POLICIES, delete_global),
)
