"""The public face of the broker: all that a plugin may import of it. See docs/plugins.md.

What stands here keeps its name and meaning; the modules it comes from may change.
"""

from .amqp import properties
from .amqp.errors import AccessRefused, AMQPError, Invalid, NotFound, OperatorError, PreconditionFailed, Unknown
from .amqp.field_table import FLOATS, INTEGERS, Table, Value, same, term_of, text_of, type_name
from .amqp.field_table import check as check_table
from .amqp.limits import SHORT_STRING
from .amqp.properties import Properties
from .amqp.table_json import json_of_table, table_of_json
from .config import Config, HTTPListener, Links, Management, Prometheus, SSLOptions, Throughput
from .core.access.passwords import ARGON2ID, DIGESTS, SALT_BYTES, SHA256, hash_password
from .core.access.permissions import Permission, TopicPermission
from .core.access.users import InternalUser, User
from .core.counters.histogram import BOUNDS_S, LatencyHistogram
from .core.counters.statistics import (
    AT_MOST_ONCE,
    DISABLED,
    SIZES,
    Churn,
    DeliveryCounters,
    LoginAttempts,
    PublishCounters,
    Statistics,
)
from .core.definitions.exporter import IMPORTED_HASH, arguments_with_type, exported, snapshot, text_pieces
from .core.definitions.files import parsed
from .core.definitions.importer import imported
from .core.exchanges.bound_destinations import Destinations
from .core.exchanges.delayed import DelayedExchange
from .core.exchanges.exchange import Exchange
from .core.exchanges.exchange_context import ExchangeContext
from .core.exchanges.exchange_type import Emission, ExchangeType
from .core.exchanges.recovered import RecoveredMessages
from .core.exchanges.registry import Registry
from .core.exchanges.sink import Sink
from .core.messages.binding import Binding, Destination
from .core.messages.message import Address, Message, framed
from .core.messages.ports import Clock, Timer
from .core.metadata.patterns import QUERY_LONGEST_BYTES, QUERY_SEARCH_S, Pattern, query_pattern
from .core.metadata.policy import Policy
from .core.metadata.queue_types import CLASSIC, QUORUM
from .core.metadata.records import (
    Change,
    StoredGlobalParameter,
    StoredParameter,
    StoredPermission,
    StoredUser,
    StoredVHost,
)
from .core.node.node import Node
from .core.policies.limits import VHOST_LIMITS, user_limits
from .core.policies.parameters import CLUSTER_ID, CLUSTER_NAME, POLICY, Parameter
from .core.policies.policy_keys import DEDUPLICATE, FEDERATION, MULTI_HOP
from .core.policies.upstream_parameters import UPSTREAM, UPSTREAM_SET, safe_uri, uri_fault
from .core.queues.consumers import Consumer, SingleActiveConsumers, is_active
from .core.queues.enqueue import ACCEPTED, DURABLE, EnqueueResult
from .core.queues.message_log import MessageLog, Origin
from .core.queues.queue import Queue
from .core.queues.queue_sizes import queue_sizes
from .core.queues.route_target import RouteTarget
from .core.telemetry.detailed_rates import DetailedRates
from .core.telemetry.firehose import described
from .core.telemetry.resource_alarms import RESOURCES
from .core.vhost.observer import Observer
from .core.vhost.vhost import VHost
from .hosting.feature_flags import DEPRECATED_FEATURES, FEATURES
from .hosting.host import PRODUCT, Command, Host, Listening, Service, product_version
from .hosting.local_socket import LocalListener, LocalServer
from .hosting.node_control import NodeControl
from .hosting.node_log import LEVELS
from .hosting.stable_hash import stable_hash
from .logs.redaction import HIDDEN, redacted
from .net.certificates import authority_expiries, server_expiry
from .net.connection_limits import Pool, Slot
from .net.listener import Listener
from .net.tls import TLS
from .runtime.loop_watchdog import Turns
from .runtime.source_address import source_of
from .runtime.supervisor import Child, Supervisor
from .session.channel import Channel
from .session.connection import Connection
from .session.consumer import ChannelConsumer
from .session.events import http_login, pid
from .session.internal_publisher import Content, InternalPublisher, PublishResult
from .session.operator_channel import FetchedMessage, OperatorChannel, PublishOutcome
from .session.transport import Peer

__all__ = [
    "ACCEPTED",
    "ARGON2ID",
    "AT_MOST_ONCE",
    "BOUNDS_S",
    "CLASSIC",
    "CLUSTER_ID",
    "CLUSTER_NAME",
    "DEDUPLICATE",
    "DEPRECATED_FEATURES",
    "DIGESTS",
    "DISABLED",
    "DURABLE",
    "FEATURES",
    "FEDERATION",
    "FLOATS",
    "HIDDEN",
    "IMPORTED_HASH",
    "INTEGERS",
    "LEVELS",
    "MULTI_HOP",
    "POLICY",
    "PRODUCT",
    "QUERY_LONGEST_BYTES",
    "QUERY_SEARCH_S",
    "QUORUM",
    "RESOURCES",
    "SALT_BYTES",
    "SHA256",
    "SHORT_STRING",
    "SIZES",
    "TLS",
    "UPSTREAM",
    "UPSTREAM_SET",
    "VHOST_LIMITS",
    "AMQPError",
    "AccessRefused",
    "Address",
    "Binding",
    "Change",
    "Channel",
    "ChannelConsumer",
    "Child",
    "Churn",
    "Clock",
    "Command",
    "Config",
    "Connection",
    "Consumer",
    "Content",
    "DelayedExchange",
    "DeliveryCounters",
    "Destination",
    "Destinations",
    "DetailedRates",
    "Emission",
    "EnqueueResult",
    "Exchange",
    "ExchangeContext",
    "ExchangeType",
    "FetchedMessage",
    "HTTPListener",
    "Host",
    "InternalPublisher",
    "InternalUser",
    "Invalid",
    "LatencyHistogram",
    "Links",
    "Listener",
    "Listening",
    "LocalListener",
    "LocalServer",
    "LoginAttempts",
    "Management",
    "Message",
    "MessageLog",
    "Node",
    "NodeControl",
    "NotFound",
    "Observer",
    "OperatorChannel",
    "OperatorError",
    "Origin",
    "Parameter",
    "Pattern",
    "Peer",
    "Permission",
    "Policy",
    "Pool",
    "PreconditionFailed",
    "Prometheus",
    "Properties",
    "PublishCounters",
    "PublishOutcome",
    "PublishResult",
    "Queue",
    "RecoveredMessages",
    "Registry",
    "RouteTarget",
    "SSLOptions",
    "Service",
    "SingleActiveConsumers",
    "Sink",
    "Slot",
    "Statistics",
    "StoredGlobalParameter",
    "StoredParameter",
    "StoredPermission",
    "StoredUser",
    "StoredVHost",
    "Supervisor",
    "Table",
    "Throughput",
    "Timer",
    "TopicPermission",
    "Turns",
    "Unknown",
    "User",
    "VHost",
    "Value",
    "arguments_with_type",
    "authority_expiries",
    "check_table",
    "described",
    "exported",
    "framed",
    "hash_password",
    "http_login",
    "imported",
    "is_active",
    "json_of_table",
    "parsed",
    "pid",
    "product_version",
    "properties",
    "query_pattern",
    "queue_sizes",
    "redacted",
    "safe_uri",
    "same",
    "server_expiry",
    "snapshot",
    "source_of",
    "stable_hash",
    "table_of_json",
    "term_of",
    "text_of",
    "text_pieces",
    "type_name",
    "uri_fault",
    "user_limits",
]
