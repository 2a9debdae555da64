"""Commands that `warrenctl` does not have: those of RabbitMQ, with what to use instead, as in docs/migration.md, and
those of `warren`.
"""

# names, and the reason with the alternative
ROWS = (
    (
        "change_cluster_node_type coordinator_status discover_peers force_boot force_standalone_khepri_boot "
        "forget_cluster_node join_cluster metadata_store_status rename_cluster_node update_cluster_nodes",
        "there is no cluster: one node is active",
    ),
    (
        "add_member delete_member grow reclaim_quorum_memory shrink",
        "a quorum queue has one replica; the store is what is replicated",
    ),
    (
        "check_if_cluster_has_classic_queue_mirroring_policy "
        "list_operator_policies_with_classic_queue_mirroring list_policies_with_classic_queue_mirroring "
        "remove_classic_queue_mirroring_from_policies",
        "there are no mirrored queues, and `ha-mode` has no effect: `list_policies` shows it",
    ),
    (
        "add_replica add_super_stream delete_replica delete_super_stream list_stream_connections "
        "list_stream_consumer_groups list_stream_consumers list_stream_group_consumers list_stream_publishers "
        "list_stream_tracking restart_stream set_stream_retention_policy stream_status",
        "there are no streams",
    ),
    (
        "delete_shovel restart_shovel shovel_status",
        "there are no shovels: `federation_status`, `restart_federation_link`",
    ),
    (
        "list_mqtt_connections list_stomp_connections list_web_mqtt_connections",
        "the protocol is AMQP 0-9-1: `list_connections`",
    ),
    ("add_signing_key add_uaa_key", "there is no OAuth 2"),
    (
        "decode decrypt_conf_value encode encrypt_conf_value",
        "an encrypted value cannot be read: write `$(VARIABLE)` in the configuration",
    ),
    (
        "command_line_arguments erlang_cookie_hash erlang_cookie_sources eval_file exec maybe_stuck observer "
        "remote_shell resolver_info runtime_thread_stats schema_info",
        "they show or run Erlang; `status` and `report` show the process",
    ),
    (
        "certificates",
        "`check_certificate_expiration` names files and dates; `openssl s_client` shows a certificate",
    ),
    ("os_env", "`environment` has the configuration, with what comes from variables"),
    ("directories", "there are no folders of plugins: `list` has those that are installed"),
    (
        "list_network_interfaces resolve_hostname",
        "`ip address` and `getent hosts` of the system",
    ),
    (
        "activate_free_disk_space_monitoring deactivate_free_disk_space_monitoring",
        "the disk is always watched; `set_disk_free_limit 0` is the least limit",
    ),
    (
        "disable_auth_attempt_source_tracking enable_auth_attempt_source_tracking",
        "logins are counted by protocol, never by address and user",
    ),
    (
        "consistent_hash_exchange_ring_state",
        "the bindings of the exchange have the weights: `list_bindings`",
    ),
    ("peek", "`POST /api/queues/VHOST/NAME/get`, and the page of the queue, return messages and requeue them"),
    ("reset_stats_db", "counters live as long as their objects"),
    ("autocomplete", "shells complete by `warren completion`"),
)
MISSING = {name: why.replace("`", "") for names, why in ROWS for name in names.split()}

OF_WARREN = (
    *("serve", "plugins", "doctor", "store", "copy", "restore", "systemd-unit", "completion"),
    *("analyze", "compact", "migrate", "trace"),
)
