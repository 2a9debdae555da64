"""Checks of the answers of a migration's source."""

import time
from typing import Any

import pytest

from tests.support.speed import without_collector
from warren.broker.ctl.errors import ExitError
from warren.plugins.migration.brokers import Broker, QueueName


class Source:
    """The HTTP API of a source, with the answer to each path."""

    address = "source:15672"

    def __init__(self, **answers: Any) -> None:
        self.answers = {"whoami": {"name": "guest"}, "global-parameters": [], **answers}

    def get(self, *path: str, **query: str) -> Any:
        return self.answers["/".join(path)]

    def close(self) -> None: ...


def broker_with(port: object = 5672, permissions: object = ()) -> Broker:
    overview = {"exchange_types": [], "listeners": [{"protocol": "amqp", "port": port}], "product_version": "4"}
    return Broker(lambda: Source(overview=overview, **{"users/u/permissions": permissions}))  # type: ignore[arg-type, return-value]


def test_the_port_of_a_listener_is_a_number() -> None:
    assert broker_with(5673).amqp_uri("u:p", "source") == broker_with("5673").amqp_uri("u:p", "source")
    assert broker_with(5673).amqp_uri("u:p", "source") == "amqp://u:p@source:5673"


@pytest.mark.parametrize("port", ["1@evil.example:5672", "5672/x", 0, 65_536, -1, None, [5672], ""])
def test_a_port_that_is_none_does_not_become_a_part_of_the_uri(port: object) -> None:
    with pytest.raises(ExitError, match="--amqp"):
        broker_with(port).amqp_uri("u:p", "source")


def test_permissions_of_the_source_decide_which_queues_cannot_be_read() -> None:
    queues = [QueueName("v", "a"), QueueName("v", "b"), QueueName("w", "a"), QueueName("x", "a"), QueueName("y", "a")]
    rows = [
        {"vhost": "v", "read": "^a"},
        {"vhost": "w", "read": ""},
        {"vhost": "y", "read": "(?<unknown"},  # let the source decide
    ]
    assert broker_with(permissions=rows).unreadable("u", queues) == [queues[1], queues[2], queues[3]]


def test_a_costly_pattern_of_the_source_is_given_up() -> None:
    rows = [{"vhost": "v", "read": "^(a|aa)+$|^(a|a)+$"}]
    queues = [QueueName("v", "a" * 200 + str(number)) for number in range(100)]
    with without_collector():
        before_s = time.thread_time()
        assert broker_with(permissions=rows).unreadable("u", queues) == []
        assert time.thread_time() - before_s < 0.5
