"""A node with the virtual host `/`, and an observer that records its changes."""

import pytest

from tests.support.recording_observer import RecordingObserver
from tests.support.session import new_node
from warren.broker.core.node.node import Node
from warren.broker.core.vhost.vhost import VHost


@pytest.fixture
def node() -> Node:
    return new_node()


@pytest.fixture
def vhost(node: Node) -> VHost:
    return node.vhosts["/"]


@pytest.fixture
def watcher(node: Node) -> RecordingObserver:
    watcher = RecordingObserver()
    node.observers.add(watcher)
    return watcher
