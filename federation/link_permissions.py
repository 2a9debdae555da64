"""The permissions of a link, which are those of the user who set its upstream.

If an administrator, an operator at the unix socket or a file of definitions set the upstream, the link acts as the node
itself: an administrator can grant himself every permission, so none is checked. Otherwise

- the user needs `write` permission for the exchange or queue that the link feeds, and no topic permission may restrict
  it, because the routing keys of messages from upstream are not checked;
- a URI without a host logs in as that user;
- the link may not log in on this machine as a loopback-only user, whose password is no secret
  (`upstream.connection.check_login`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.broker.plugin import Node, User

from .upstream.errors import LinkError

if TYPE_CHECKING:
    from .link_spec import LinkKey, LinkSpec

ADMINISTRATOR = "administrator"
EVERYTHING = ".*"


def acting_user(node: Node, spec: LinkSpec) -> User | None:
    """Return the user for whom the link acts, or None for the node itself. Raises LinkError if the user is deleted."""
    if not spec.user:
        return None
    user = node.users.get(spec.user)
    if user is None:
        raise LinkError(f"user '{spec.user}', who set upstream '{spec.key.upstream}', does not exist any more")
    return None if ADMINISTRATOR in user.tags else user


def check_rights(node: Node, spec: LinkSpec) -> User | None:
    """Return the `acting_user`. Raises LinkError if that user may not write to the exchange or queue of the link."""
    user, key = acting_user(node, spec), spec.key
    if user is not None:
        permission = user.permissions.get(key.vhost)
        who = f"user '{user.name}', who set upstream '{key.upstream}'"
        what = f"{key.kind} '{key.name}' in vhost '{key.vhost}'"
        if permission is None or not permission.allows("write", key.name):
            raise LinkError(f"{who}, has no write access to {what}")
        topics = user.topic_permissions.get(key.vhost, {}).get(key.name)
        if topics is not None and topics.write != EVERYTHING and is_topic_exchange(node, key):
            raise LinkError(f"{who}, may not write every topic of {what}: its topic permission is '{topics.write}'")
    return user


def is_topic_exchange(node: Node, key: LinkKey) -> bool:
    """Return whether the link feeds a topic exchange, the only type for which topic permissions count."""
    if key.kind != "exchange" or key.vhost not in node.vhosts:
        return False
    exchange = node.vhosts[key.vhost].exchanges.get(key.name)
    return exchange is not None and exchange.type_name == "topic"
