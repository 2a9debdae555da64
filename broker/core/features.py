"""Feature flags, by RabbitMQ's names and in its words."""

# Of RabbitMQ, by which its tools know what they may ask. All of it is here, or has been so for long that nobody asks.
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
