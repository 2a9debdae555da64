"""Routes that answer before something is changed: what a policy would match, and what a user may do."""

import asyncio
import time

import msgspec

from warren.broker.core.metadata.patterns import SearchTime
from warren.broker.core.metadata.policy import APPLY_TO, Policy
from warren.broker.core.policies.policies import applies_to
from warren.broker.plugin import Exchange, Invalid, Queue, User, VHost

from ...http.auth import ADMIN, ANY, POLICIES, VHOST
from ...http.responses import Response, bad, ok
from ..framework.pagination import NAME_S, PATTERN_S
from ..framework.request import DEFAULT_EXCHANGE, Request
from ..framework.router import route
from .users import find_user

NAMES_LIMIT = 100  # of matching objects named in one response
OPERATIONS = ("configure", "write", "read")


class Named(msgspec.Struct):
    kind: str
    name: str


class PolicyPreview(msgspec.Struct):
    """The numbers of queues and exchanges that a policy would match, and some of them."""

    queues: int
    exchanges: int
    items: list[Named]


class AccessView(msgspec.Struct):
    """A permission or a refusal, and the reasons."""

    allowed: bool
    reasons: list[str]


@route("GET", POLICIES, "/warren/policy-preview/{vhost}")
async def preview_policy(request: Request) -> Response[PolicyPreview]:
    """Return the queues and exchanges that a policy with this `pattern` and `apply-to` would match, with counts."""
    vhost, query = request.path_vhost(), request.query
    scope = query.get("apply-to", "all")
    if scope not in APPLY_TO:
        raise bad(f"apply-to should be one of {', '.join(APPLY_TO)}")
    try:
        # In a thread: a large pattern takes 0.1 s to compile.
        making = asyncio.to_thread(Policy, vhost.name, "", query.get("pattern", ""), {}, 0, scope)
        policy = await request.wait(making)
    except Invalid as error:
        raise bad(error.text) from None
    async with request.searching():
        return ok(await matched_by(request, policy, vhost))


async def matched_by(request: Request, policy: Policy, vhost: VHost) -> PolicyPreview:
    """Return the counts of queues and exchanges that a policy matches, and some of their names."""
    named: list[Named] = []
    counts = {"queue": 0, "exchange": 0}
    targets: list[Queue | Exchange] = [*vhost.queues.values(), *vhost.exchanges.values()]
    left_s = PATTERN_S  # of processor time
    async for target in request.in_slices(targets):
        begun_s = time.thread_time()
        matches = applies_to(policy, target, SearchTime(request.node.clock.processor_s)) if target.name else False
        left_s += NAME_S - (time.thread_time() - begun_s)
        if matches is None or left_s < 0:
            raise bad(f"the search for the pattern in '{target.name}' takes too long")
        if matches:
            counts[target.kind] += 1
            if len(named) < NAMES_LIMIT:
                named.append(Named(target.kind, target.name))
    return PolicyPreview(counts["queue"], counts["exchange"], named)


@route("GET", ADMIN, "/warren/access/{vhost}/{user}")
def explain_access(request: Request) -> Response[AccessView]:
    """Return whether a user may configure, write or read an object, with the reason in words.

    The query has `operation`, `name`, and for a topic exchange `routing_key`. Publishing writes an exchange, consuming
    reads a queue, binding writes the destination and reads the source.
    """
    user = find_user(request)
    operation, name = request.query.get("operation", ""), request.query.get("name", "")
    if operation not in OPERATIONS:
        raise bad(f"operation should be one of {', '.join(OPERATIONS)}")
    allowed, reasons = access_of(request, user, operation, name or DEFAULT_EXCHANGE)
    return ok(AccessView(allowed, reasons))


@route("GET", ANY, "/warren/rights")
def entered_vhosts(request: Request) -> Response[list[str]]:
    """Return the names of the virtual hosts that the caller may enter, which with the tag monitoring sees all."""
    return ok([vhost.name for vhost in request.vhosts()])


@route("GET", VHOST, "/warren/rights/{vhost}")
def own_rights(request: Request) -> Response[dict[str, bool]]:
    """Return which of configure, write and read the caller has for the queue or exchange with this `name`."""
    permission = request.user.permissions.get(request.path_vhost().name)
    name = request.query.get("name", "") or DEFAULT_EXCHANGE
    is_local = request.caller.is_local
    return ok({one: is_local or (permission is not None and permission.allows(one, name)) for one in OPERATIONS})


def access_of(request: Request, user: User, operation: str, name: str) -> tuple[bool, list[str]]:
    """Return whether the user may do this, and the reasons."""
    vhost = request.path_vhost()
    permission = user.permissions.get(vhost.name)
    if permission is None:
        lacks = f"user '{user.name}' has no permissions in virtual host '{vhost.name}'"
        return False, [f"{lacks}, so may not connect to it"]
    pattern = getattr(permission, operation)
    if not permission.allows(operation, name):
        return False, [f"the {operation} pattern '{pattern}' is not found in '{name}'"]
    reasons = [f"the {operation} pattern '{pattern}' is found in '{name}'"]
    topic, key = user.topic_permissions.get(vhost.name, {}).get(name), request.query.get("routing_key", "")
    exchange = vhost.exchanges.get(name)
    if exchange is not None and exchange.internal and operation == "write":
        reasons.append("but the exchange is internal: clients bind it, and may not publish to it")
        return False, reasons
    if topic is None or operation == "configure" or exchange is None or exchange.type_name != "topic":
        return True, reasons
    pattern = getattr(topic, operation)
    allowed = topic.allows(operation, key)
    verb = "is found" if allowed else "is not found"
    reasons.append(f"the topic permission's {operation} pattern '{pattern}' {verb} in the routing key '{key}'")
    return allowed, reasons
