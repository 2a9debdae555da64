"""RabbitMQ's feature flags, deprecated features and plugins, by its names and in its words."""

import os
import re
from collections.abc import Collection

from ..system_errors import read_text

# RabbitMQ's tools read these to know what a broker supports. Warren has all of it, or the flag is so old that no tool
# reads it.
FEATURES = {
    "classic_mirrored_queue_version": "Support setting version for classic mirrored queues",
    "classic_queue_type_delivery_support": "Bug fix for classic queue deliveries using mixed versions",
    "direct_exchange_routing_v2": "v2 direct exchange routing implementation",
    "drop_unroutable_metric": "Count unroutable publishes to be dropped in stats",
    "empty_basic_get_metric": "Count AMQP `basic.get` on empty queues in stats",
    "feature_flags_v2": "Feature flags subsystem V2",
    "implicit_default_bindings": "Default bindings are now implicit, instead of being stored in the database",
    "listener_records_in_ets": "Store listener records in ETS instead of Mnesia",
    "maintenance_mode_status": "Maintenance mode status",
    "quorum_queue": "Support queues of type `quorum`",
    "restart_streams": "Support for restarting streams with optional preferred next leader argument",
    "stream_queue": "Support queues of type `stream`",
    "tracking_records_in_ets": "Store tracking records in ETS instead of Mnesia",
    "user_limits": "Configure connection and channel limits for a user",
    "virtual_host_metadata": "Virtual host metadata (description, tags, etc)",
}

ANNOUNCED = "https://blog.rabbitmq.com/posts/2021/08/4.0-deprecation-announcements/"
# Features that RabbitMQ will remove or has removed: name, phase, provider, announcement.
DEPRECATED_FEATURES = (
    ("queue_master_locator", "permitted_by_default", "rabbit", ""),
    (
        "management_metrics_collection",
        "permitted_by_default",
        "rabbitmq_management_agent",
        f"{ANNOUNCED}#disable-metrics-delivery-via-the-management-api--ui",
    ),
    ("global_qos", "permitted_by_default", "rabbit", f"{ANNOUNCED}#removal-of-global-qos"),
    ("ram_node_type", "permitted_by_default", "rabbit", f"{ANNOUNCED}#removal-of-ram-nodes"),
    (
        "transient_nonexcl_queues",
        "permitted_by_default",
        "rabbit",
        f"{ANNOUNCED}#removal-of-transient-non-exclusive-queues",
    ),
    ("amqp_address_v1", "permitted_by_default", "rabbit", "https://www.rabbitmq.com/docs/next/amqp#address"),
    ("classic_queue_mirroring", "removed", "rabbit", f"{ANNOUNCED}#removal-of-classic-queue-mirroring"),
)

# RabbitMQ's plugins that are part of every node here, and those that a service or an exchange type replaces.
PLUGINS = ("rabbitmq_auth_mechanism_ssl", "rabbitmq_event_exchange", "rabbitmq_message_deduplication")
PLUGINS_OF_SERVICES = {
    "rabbitmq_federation": "federation",
    "rabbitmq_federation_management": "federation",
    "rabbitmq_management": "management",
    "rabbitmq_management_agent": "management",
    "rabbitmq_prometheus": "prometheus",
    "rabbitmq_web_dispatch": "management",
}
PLUGINS_OF_TYPES = {
    "rabbitmq_consistent_hash_exchange": "x-consistent-hash",
    "rabbitmq_delayed_message_exchange": "x-delayed-message",
    "rabbitmq_presence_exchange": "x-presence",
    "rabbitmq_random_exchange": "x-random",
    "rabbitmq_recent_history_exchange": "x-recent-history",
    "rabbitmq_sharding": "x-modulus-hash",
}

VARIABLE = "RABBITMQ_ENABLED_PLUGINS_FILE"
COMMENT = re.compile(r"%.*")
NAME = re.compile(r"[a-z]\w*")


def missing_plugins(known: Collection[str]) -> list[str]:
    """Return the plugins of RabbitMQ's file of enabled plugins without those that are known.

    The environment names the file, an Erlang list such as `[rabbitmq_management,rabbitmq_federation].` All plugins of a
    node are enabled here, so it changes nothing; but a node cannot replace one that lacks something.
    """
    try:
        text = read_text(os.environ.get(VARIABLE, ""))
    except (OSError, UnicodeDecodeError):
        return []
    return [name for name in NAME.findall(COMMENT.sub("", text)) if name not in known]
