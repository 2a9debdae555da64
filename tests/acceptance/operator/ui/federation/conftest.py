"""Two brokers: site-a, whose pages are tested, and site-b."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.federated_broker import FederatedBroker


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FederatedBroker]:
    """The downstream broker, whose pages are tested."""
    folder: Path = tmp_path_factory.mktemp("site-a")
    with FederatedBroker(folder, "site-a") as broker:
        for name, tags in (("maker", "policymaker"), ("watch", "monitoring")):
            broker.ask("PUT", f"/users/{name}", {"password": name, "tags": tags})
            broker.ask("PUT", f"/permissions/%2f/{name}", {"configure": ".*", "write": ".*", "read": ".*"})
        yield broker


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FederatedBroker]:
    """The upstream broker."""
    folder: Path = tmp_path_factory.mktemp("site-b")
    with FederatedBroker(folder, "site-b") as broker:
        yield broker


@pytest.fixture(autouse=True)
def nothing_federated(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test begins without policies, upstreams, links and exchanges."""
    yield
    for name in ("running", "other"):
        if name not in request.fixturenames:
            continue
        broker: FederatedBroker = request.getfixturevalue(name)
        for policy in broker.ask("GET", "/policies/%2f"):
            broker.ask("DELETE", f"/policies/%2f/{quote(policy['name'], '')}")
        for component in ("federation-upstream", "federation-upstream-set"):
            for one in broker.ask("GET", f"/parameters/{component}/%2f"):
                broker.ask("DELETE", f"/parameters/{component}/%2f/{quote(one['name'], '')}")
        for exchange in broker.exchanges():
            if not exchange.startswith("federation: "):  # those are deleted with their links
                broker.ask("DELETE", f"/exchanges/%2f/{quote(exchange, '')}")
