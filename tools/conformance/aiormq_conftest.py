"""The fixtures of aiormq's conftest.py that its sdist lacks: the broker of the run in place of a container."""

from types import SimpleNamespace

import pytest
from yarl import URL


@pytest.fixture(scope="session")
def rabbitmq_container() -> SimpleNamespace:
    return SimpleNamespace(host="127.0.0.1", ports={"5672/tcp": 5672, "5671/tcp": 5671})


@pytest.fixture(scope="session")
def amqp_direct_url() -> URL:
    return URL("amqp://guest:guest@127.0.0.1:5672//")
