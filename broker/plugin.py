"""The public names of the broker: all that plugins of other distributions may import. See docs/plugins.md.

These names keep their meaning; the modules that they come from may change. Plugins that are part of this repository
also import those modules, as far as the table in broker/README.md allows.
"""

from .amqp.errors import (
    AccessRefused,
    AMQPError,
    Invalid,
    NotFound,
    NotNow,
    OperatorError,
    PreconditionFailed,
    Unknown,
    Unreadable,
)
from .amqp.field_table import Table, Value
from .amqp.properties import Properties
from .core.access.users import User
from .core.exchanges.exchange import Exchange
from .core.exchanges.exchange_context import Emission, EnqueueSteps, ExchangeContext, RecoveredMessages, RoomSteps
from .core.exchanges.exchange_type import ExchangeType, KeptMessage, Registry, Sink, UpstreamExchange
from .core.exchanges.fanout import FanoutExchange
from .core.messages.binding import Binding, Destination, Destinations
from .core.messages.clock import Clock, Timer
from .core.messages.message import Message, RoutingAddress, framed
from .core.node.node import Node
from .core.queues.queue import Queue
from .core.queues.route_target import ACCEPTED, EnqueueResult
from .core.vhost.vhost import VHost
from .net.connection_limits import Pool
from .net.listener import Listener
from .plugin_host.host import Command, Host, Service, command_failed
from .plugin_host.standby_host import StandbyHost
from .runtime.supervisor import Child
from .session.internal_publisher import Content, InternalPublisher
from .session.management_channel import ManagementChannel
from .session.transport import Peer
from .stable_hash import stable_hash

__all__ = [
    "ACCEPTED",
    "AMQPError",
    "AccessRefused",
    "Binding",
    "Child",
    "Clock",
    "Command",
    "Content",
    "Destination",
    "Destinations",
    "Emission",
    "EnqueueResult",
    "EnqueueSteps",
    "Exchange",
    "ExchangeContext",
    "ExchangeType",
    "FanoutExchange",
    "Host",
    "InternalPublisher",
    "Invalid",
    "KeptMessage",
    "Listener",
    "ManagementChannel",
    "Message",
    "Node",
    "NotFound",
    "NotNow",
    "OperatorError",
    "Peer",
    "Pool",
    "PreconditionFailed",
    "Properties",
    "Queue",
    "RecoveredMessages",
    "Registry",
    "RoomSteps",
    "RoutingAddress",
    "Service",
    "Sink",
    "StandbyHost",
    "Table",
    "Timer",
    "Unknown",
    "Unreadable",
    "UpstreamExchange",
    "User",
    "VHost",
    "Value",
    "command_failed",
    "framed",
    "stable_hash",
]
