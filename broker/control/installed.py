"""What of RabbitMQ's plugins this broker has, by RabbitMQ's names."""

from __future__ import annotations

from .answers import Report
from .call import Call, Handler
from .plugins import Plugins

ALWAYS = ("rabbitmq_auth_mechanism_ssl", "rabbitmq_event_exchange", "rabbitmq_message_deduplication")
OF_SERVICES = {
    "rabbitmq_federation": "federation",
    "rabbitmq_federation_management": "federation",
    "rabbitmq_management": "management",
    "rabbitmq_management_agent": "management",
    "rabbitmq_prometheus": "prometheus",
    "rabbitmq_web_dispatch": "management",
}
OF_TYPES = {
    "rabbitmq_consistent_hash_exchange": "x-consistent-hash",
    "rabbitmq_delayed_message_exchange": "x-delayed-message",
    "rabbitmq_presence_exchange": "x-presence",
    "rabbitmq_random_exchange": "x-random",
    "rabbitmq_recent_history_exchange": "x-recent-history",
    "rabbitmq_sharding": "x-modulus-hash",
}


def running(call: Call) -> list[str]:
    """Those that this broker has; what RabbitMQ has no name for goes by its own."""
    services = call.host.services
    types = [name for name, distribution in call.node.registry.listed() if distribution]
    named = [name for name, service in OF_SERVICES.items() if service in services]
    named += [name for name, type_ in OF_TYPES.items() if type_ in types]
    others = {*services, *types} - {*OF_SERVICES.values(), *OF_TYPES.values()}
    return sorted((*ALWAYS, *named, *others))


def plugins(call: Call) -> Plugins:
    return Plugins(call.node.name, call.node.version, running(call), [*ALWAYS, *OF_SERVICES, *OF_TYPES])


def list_plugins(call: Call) -> Report:
    return plugins(call).listed(call)


def enable(call: Call) -> Report:
    return plugins(call).enable(call)


def disable(call: Call) -> Report:
    return plugins(call).disable(call)


def is_enabled(call: Call) -> Report:
    return plugins(call).is_enabled(call)


COMMANDS: dict[str, Handler] = {
    "disable": disable,
    "enable": enable,
    "is_enabled": is_enabled,
    "list": list_plugins,
    "set": enable,
}
