"""Properties of publishes that the broker acts upon: CC, BCC, expiration, user-id, and reply-to of direct reply-to."""

from __future__ import annotations

import re
from typing import Final

from ...amqp import properties
from ...amqp.errors import PreconditionFailed
from ...amqp.field_table import Table, type_name
from ...amqp.limits import LONGEST_MS
from ...core.messages.message import Message
from ...core.messages.message_state import NO_TTL, MessageState
from ...core.queues.reply_queue import REPLY_TO
from ..channel import Channel

NUMBER: Final = re.compile("-?[0-9]+")


def apply_special_properties(channel: Channel, message: Message) -> tuple[Message, tuple[str, ...]]:
    """Return the message with its special properties applied, and all its routing keys.

    A direct reply-to is replaced by the name of the reply queue. CC and BCC add routing keys, and BCC is removed.
    Expiration becomes a time to live. Raises PreconditionFailed (406) if one is invalid or the user-id is another
    user's.
    """
    raw = changed = message.property_bytes
    if properties.text(raw, properties.REPLY_TO) == REPLY_TO:
        if channel.reply_queue is None:
            raise PreconditionFailed("fast reply consumer does not exist")
        changed = properties.replace(changed, properties.REPLY_TO, channel.reply_queue.name)
    ttl_ms = time_to_live_ms(properties.text(raw, properties.EXPIRATION))
    keys = [message.address.routing_key]
    bcc_keys: tuple[str, ...] = ()
    headers = properties.headers(raw)
    if headers is not None:
        keys += copy_keys(headers, "CC")
        bcc_keys = copy_keys(headers, "BCC")
        keys += bcc_keys
        if "BCC" in headers:
            changed = properties.replace(changed, properties.HEADERS, headers.without(("BCC",)))
        channel.connection.spent += headers.read_cost
    if len(keys) > 1:
        channel.check_topic("write", message.address.exchange, *keys[1:])
    user_id = properties.text(raw, properties.USER_ID)
    if user_id is not None and user_id != channel.user.name and "impersonator" not in channel.user.tags:
        raise PreconditionFailed(
            f"user_id property set to '{user_id}' but authenticated user was '{channel.user.name}'"
        )
    if changed is raw and len(keys) == 1 and user_id is None:
        channel.checked.ttl_ms = ttl_ms
    if changed is not raw:
        frames = message.frames_with(changed)
        message = Message(message.address, frames, 0, message.body_bytes, 0, message.persistent)
    if ttl_ms != NO_TTL or bcc_keys:
        message.state = MessageState(ttl_ms, bcc_keys=bcc_keys)
    return message, tuple(keys)


def copy_keys(headers: Table, name: str) -> tuple[str, ...]:
    """Return the routing keys of the header CC or BCC. Raises PreconditionFailed (406) if it is no list."""
    value = headers.get(name)
    if value is None:
        return ()
    if not isinstance(value[1], list):
        raise PreconditionFailed(f'invalid message: {{unacceptable_type_in_header,"{name}",{type_name(value)}}}')
    return tuple(key.decode("utf-8", "surrogateescape") for kind, key in value[1] if kind == "S")


def time_to_live_ms(expiration: str | None) -> int:
    """Return the time to live in milliseconds; raises PreconditionFailed (406) unless it is a number in range."""
    if expiration is None:
        return NO_TTL
    match = NUMBER.match(expiration)
    reason = ""
    if match is None:
        reason = "no_integer"
    elif match.end() < len(expiration):
        reason = f'{{leftover_string,"{expiration[match.end() :]}"}}'
    elif int(expiration) < 0:
        reason = f"{{value_negative,{int(expiration)}}}"
    elif int(expiration) > LONGEST_MS:
        reason = f"{{value_too_large,{int(expiration)}}}"
    if reason:
        raise PreconditionFailed(f"invalid expiration '{expiration}': {reason}")
    return int(expiration)
