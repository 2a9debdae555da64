"""The handlers of all commands by name."""

from collections.abc import Iterable

from .. import link_columns
from . import actions, diagnostics, evaluation, lists, log, node, parameters, permissions, plugins, users, vhosts
from .call import Handler

COMMANDS: dict[str, Handler] = {
    **users.COMMANDS,
    **permissions.COMMANDS,
    **vhosts.COMMANDS,
    **parameters.COMMANDS,
    **lists.COMMANDS,
    **actions.COMMANDS,
    **diagnostics.COMMANDS,
    **plugins.COMMANDS,
    **node.COMMANDS,
    **log.COMMANDS,
    **evaluation.COMMANDS,
}

# Commands that only the unix socket accepts.
LOCAL_ONLY = frozenset(
    (
        *(
            "cipher_suites",
            "consume_event_stream",
            "disable",
            "drain",
            "eval",
            "force_reset",
            "list_ciphers",
            "list_hashes",
            "list_policies_that_match",
        ),
        *("list_unresponsive_queues", "log_tail", "log_tail_stream", "reset", "resume_listeners", "revive"),
        *("rotate_logs", "tls_versions"),
        *("set", "set_disk_free_limit", "set_log_level", "set_vm_memory_high_watermark", "shutdown", "start_app"),
        *("stop", "stop_app", "suspend_listeners"),
    )
)

# The columns of lists.
COLUMNS: dict[str, Iterable[str]] = {
    "federation_status": link_columns.COLUMNS,
    "list_bindings": lists.BINDING,
    "list_channels": lists.CHANNEL,
    "list_connections": lists.CONNECTION,
    "list_consumers": lists.CONSUMER,
    "list_deprecated_features": lists.DEPRECATED,
    "list_exchanges": lists.EXCHANGE,
    "list_feature_flags": lists.FEATURE,
    "list_queues": lists.QUEUE,
    "list_unresponsive_queues": lists.QUEUE,
    "list_vhosts": vhosts.VHOST,
}
