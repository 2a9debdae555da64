"""The metrics build_info and identity_info, once in each scrape."""

import platform
from collections.abc import Iterable
from functools import cache, partial
from importlib.metadata import version

from warren.broker.core.policies.parameters import CLUSTER_ID
from warren.broker.product import PRODUCT, product_version

from .families import Family, FamilyGroup, Row, text
from .scope import Scope


@cache
def library_version() -> str:
    """Return the version of the client library, whose metadata are in a file."""
    return version("prometheus-client")


def build(scope: Scope) -> Iterable[Row]:
    broker = text(scope.node.version)
    python, library = platform.python_version(), library_version()
    return [((broker, python, broker, library, PRODUCT, product_version()), (1,))]


def identity(endpoint: str, scope: Scope) -> Iterable[Row]:
    node = scope.node
    permanent = node.parameters.get_global(CLUSTER_ID)
    return [((text(node.name), text(node.cluster_name), text(str(permanent or "")), endpoint), (1,))]


VERSIONS = (
    *("rabbitmq_version", "erlang_version", "prometheus_plugin_version", "prometheus_client_version"),
    *("product_name", "product_version"),
)
NAMES = ("rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id", "rabbitmq_endpoint")
BUILD = Family("build_info", "untyped", "1, labelled with the versions of product, RabbitMQ and Python")
IDENTITY = Family("identity_info", "untyped", "1, with the names of the node and of its cluster")


def groups(endpoint: str) -> tuple[FamilyGroup, ...]:
    """Return the groups; dashboards join the other metrics with identity_info by its labels."""
    return (
        FamilyGroup("build_info", (BUILD,), build, VERSIONS),
        FamilyGroup("identity_info", (IDENTITY,), partial(identity, endpoint), NAMES),
    )
