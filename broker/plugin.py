"""The public face of the broker: all that a plugin may import of it. See plugins/README.md.

What stands here keeps its name and meaning; the modules it comes from may change.
"""

from . import properties
from .config import Config, HTTPListener, Links, Management, Prometheus, SSLOptions, Throughput
from .core.arguments import SHORT_STRING
from .core.binding import Binding, Destination
from .core.breakdown import Breakdown
from .core.consumers import SingleActiveConsumers, is_active
from .core.definitions import (
    Change,
    StoredGlobalParameter,
    StoredParameter,
    StoredPermission,
    StoredUser,
    StoredVHost,
)
from .core.delayed_exchange import DelayedExchange
from .core.destinations import Destinations
from .core.document import arguments_with_type, exported, snapshot, text_pieces
from .core.exchange import Exchange
from .core.exchange_host import ExchangeHost
from .core.exchange_type import ExchangeType, Notice
from .core.features import DEPRECATED_FEATURES, FEATURES
from .core.firehose import described
from .core.json_table import json_of_table, table_of_json
from .core.latencies import BOUNDS_S, Latencies
from .core.limits import VHOST_LIMITS, user_limits
from .core.message import Address, Message, framed
from .core.message_log import MessageLog
from .core.node import Node
from .core.origin import Origin
from .core.parameters import CLUSTER_ID, CLUSTER_NAME, POLICY, Parameter
from .core.passwords import ARGON2ID, SALT_BYTES, SHA256, hash_password
from .core.patterns import QUERY_LONGEST_BYTES, QUERY_SEARCH_S, Pattern, query_pattern
from .core.permissions import Permission, TopicPermission
from .core.plan import imported
from .core.policies import Policy
from .core.policy_keys import DEDUPLICATE, FEDERATION, MULTI_HOP
from .core.ports import Clock, Consumer, Observer, Timer
from .core.queue import Queue
from .core.queue_sizes import queue_sizes
from .core.receipt import STORED, TAKEN, Receipt
from .core.registry import Registry
from .core.rules import CLASSIC, QUORUM
from .core.sink import Sink
from .core.stable_hash import stable_hash
from .core.statistics import (
    AT_MOST_ONCE,
    DISABLED,
    SIZES,
    Attempts,
    Churn,
    Delivering,
    Publishing,
    Statistics,
)
from .core.stored import Stored
from .core.upstream_parameters import UPSTREAM, UPSTREAM_SET, safe_uri, uri_fault
from .core.users import User
from .core.vhost import VHost
from .definition_files import parsed
from .errors import AccessRefused, AMQPError, Invalid, NotFound, OperatorError, PreconditionFailed, Unknown
from .host import PRODUCT, Command, Host, Listening, Service, product_version
from .net.connection_limits import Pool, Slot, source_of
from .net.expiry import authority_expiries, server_expiry
from .net.listener import Listener
from .net.supervisor import Child, Supervisor
from .net.tls import TLS
from .net.turns import Turns
from .properties import Properties
from .redaction import HIDDEN, redacted
from .session.channel import Channel
from .session.connection import Connection
from .session.consuming import Subscription
from .session.inflow import Content, Inflow, Taken
from .session.link import Peer
from .session.notices import http_login, pid
from .session.operator import Got, OperatorChannel, Outcome
from .table import FLOATS, INTEGERS, Table, Value, same, term_of, text_of, type_name
from .table import check as check_table

__all__ = [
    "ARGON2ID",
    "AT_MOST_ONCE",
    "BOUNDS_S",
    "CLASSIC",
    "CLUSTER_ID",
    "CLUSTER_NAME",
    "DEDUPLICATE",
    "DEPRECATED_FEATURES",
    "DISABLED",
    "FEATURES",
    "FEDERATION",
    "FLOATS",
    "HIDDEN",
    "INTEGERS",
    "MULTI_HOP",
    "POLICY",
    "PRODUCT",
    "QUERY_LONGEST_BYTES",
    "QUERY_SEARCH_S",
    "QUORUM",
    "SALT_BYTES",
    "SHA256",
    "SHORT_STRING",
    "SIZES",
    "STORED",
    "TAKEN",
    "TLS",
    "UPSTREAM",
    "UPSTREAM_SET",
    "VHOST_LIMITS",
    "AMQPError",
    "AccessRefused",
    "Address",
    "Attempts",
    "Binding",
    "Breakdown",
    "Change",
    "Channel",
    "Child",
    "Churn",
    "Clock",
    "Command",
    "Config",
    "Connection",
    "Consumer",
    "Content",
    "DelayedExchange",
    "Delivering",
    "Destination",
    "Destinations",
    "Exchange",
    "ExchangeHost",
    "ExchangeType",
    "Got",
    "HTTPListener",
    "Host",
    "Inflow",
    "Invalid",
    "Latencies",
    "Links",
    "Listener",
    "Listening",
    "Management",
    "Message",
    "MessageLog",
    "Node",
    "NotFound",
    "Notice",
    "Observer",
    "OperatorChannel",
    "OperatorError",
    "Origin",
    "Outcome",
    "Parameter",
    "Pattern",
    "Peer",
    "Permission",
    "Policy",
    "Pool",
    "PreconditionFailed",
    "Prometheus",
    "Properties",
    "Publishing",
    "Queue",
    "Receipt",
    "Registry",
    "SSLOptions",
    "Service",
    "SingleActiveConsumers",
    "Sink",
    "Slot",
    "Statistics",
    "Stored",
    "StoredGlobalParameter",
    "StoredParameter",
    "StoredPermission",
    "StoredUser",
    "StoredVHost",
    "Subscription",
    "Supervisor",
    "Table",
    "Taken",
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
