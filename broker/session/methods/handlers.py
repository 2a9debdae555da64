"""The table of functions that serve methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pamqp import base, commands

from ...amqp.errors import AMQPError, CommandInvalid
from ...amqp.field_table import Table
from ...core.telemetry.event_exchange import INTERNAL
from ...wire.frame_reader import ACK
from ...wire.method_decoder import ACCESS_REQUEST
from ..channel import Channel
from . import acknowledge, basic, exchange, queue, tx

Handler = Callable[[Channel, Any, Table], None]

HANDLERS: dict[int, Handler] = {
    commands.Channel.Flow.index: basic.flow,
    ACCESS_REQUEST: basic.access_request,
    commands.Exchange.Declare.index: exchange.declare,
    commands.Exchange.Delete.index: exchange.delete,
    commands.Exchange.Bind.index: exchange.bind,
    commands.Exchange.Unbind.index: exchange.unbind,
    commands.Queue.Declare.index: queue.declare,
    commands.Queue.Bind.index: queue.bind,
    commands.Queue.Purge.index: queue.purge,
    commands.Queue.Delete.index: queue.delete,
    commands.Queue.Unbind.index: queue.unbind,
    commands.Basic.Qos.index: basic.qos,
    commands.Basic.Consume.index: basic.consume,
    commands.Basic.Cancel.index: basic.cancel,
    commands.Basic.Get.index: basic.get,
    commands.Basic.Reject.index: acknowledge.reject,
    commands.Basic.RecoverAsync.index: acknowledge.recover_async,
    commands.Basic.Recover.index: acknowledge.recover,
    commands.Basic.Nack.index: acknowledge.nack,
    commands.Confirm.Select.index: tx.select_confirms,
    commands.Tx.Select.index: tx.select,
    commands.Tx.Commit.index: tx.commit,
    commands.Tx.Rollback.index: tx.rollback,
}
# Replies to methods of the broker that need none.
IGNORED = (commands.Basic.CancelOk.index, commands.Channel.FlowOk.index)


def handle(channel: Channel, index: int, method: base.Frame, table: Table) -> None:
    """Serve a method. AMQPErrors that it raises have the ids of the method."""
    node_events = channel.connection.node.events
    node_events.actor = channel.user.name
    try:
        handler = HANDLERS.get(index)
        if handler is not None:
            handler(channel, method, table)
        elif index == ACK:
            raise AssertionError("acknowledgements are events of their own")
        elif index not in IGNORED:
            raise CommandInvalid("unimplemented method")
    except AMQPError as error:
        raise error.of_method(index) from None
    finally:
        node_events.actor = INTERNAL
