"""The rights of a link: it may do here what the user who set its upstream may do.

An upstream that an administrator set, or an operator by the control socket or a file of definitions, acts as the node
itself: who may give himself every right is asked for none. Others need `write` here on the exchange or queue that the
link feeds, and are themselves at a URI without a host; loopback-only users, whose passwords are no secret, are not
theirs to log in as.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from warren.broker.plugin import Node, User

from .errors import LinkError
from .upstream.endpoint import Endpoint

if TYPE_CHECKING:
    import asyncio

    from .link_spec import LinkSpec

ADMINISTRATOR = "administrator"


def acting_user(node: Node, wanted: LinkSpec) -> User | None:
    """The user as whom the link acts; None for the node itself. Raises LinkError where that user is gone."""
    if not wanted.user:
        return None
    user = node.users.get(wanted.user)
    if user is None:
        raise LinkError(f"user '{wanted.user}', who set upstream '{wanted.key.upstream}', does not exist any more")
    return None if ADMINISTRATOR in user.tags else user


def check_rights(node: Node, wanted: LinkSpec) -> User | None:
    """Return `acting_user`. Raises LinkError where that user may not write to what the link feeds."""
    user, key = acting_user(node, wanted), wanted.key
    if user is not None:
        permission = user.permissions.get(key.vhost)
        if permission is None or not permission.allows("write", key.name):
            what = f"write access to {key.kind} '{key.name}' in vhost '{key.vhost}'"
            raise LinkError(f"user '{user.name}', who set upstream '{key.upstream}', has no {what}")
    return user


def check_login(node: Node, user: User | None, one: Endpoint, socket: asyncio.BaseTransport | None) -> None:
    """Raises LinkError for a login on this machine as a loopback-only user, which that user here may not use."""
    if user is None or one.user not in node.users.loopback_only or one.mechanisms == ("external",):
        return
    if one.direct or socket is None or is_here(socket):
        raise LinkError(f"user '{one.user}' can only log in from this machine, and upstreams of '{user.name}' may not")


def is_here(socket: asyncio.BaseTransport) -> bool:
    """Whether the peer is on this machine, as far as addresses tell."""
    peer, own = socket.get_extra_info("peername"), socket.get_extra_info("sockname")
    try:
        return peer[0] == own[0] or ipaddress.ip_address(peer[0].partition("%")[0]).is_loopback
    except (TypeError, IndexError, ValueError):
        return True
