"""The mixin for unittest, in projects of others."""

from pathlib import Path

import pytest

from tests.support.foreign_project import ForeignProject
from warren.testing import Broker

pytestmark = pytest.mark.sockets
CASES = """
import os, signal, unittest
import aio_pika, pika
from warren.testing import BrokerMixin

NAMES, PIDS = [], set()

def connect(url):
    pika.BlockingConnection(pika.URLParameters(url)).close()

class AUnused(BrokerMixin, unittest.TestCase):
    def test_nothing(self):
        assert not PIDS

class BUsed(BrokerMixin, unittest.TestCase):
    def test_1_virtual_host(self):
        assert self.amqp_vhost is self.amqp_vhost and self.amqp_url == self.amqp_vhost.url
        NAMES.append(self.amqp_vhost.name)
        PIDS.add(self.amqp_broker.pid)

    def test_2_virtual_host(self):
        with self.assertRaises(pika.exceptions.AMQPConnectionError):
            connect(self.amqp_broker.url + NAMES[0])
        assert self.amqp_vhost.name.startswith("test_2_virtual_host-")
        PIDS.add(self.amqp_broker.pid)

class CFaults(BrokerMixin, unittest.TestCase):
    def setUp(self):  # without super().setUp()
        self.addCleanup(connect, self.amqp_url)  # with every fault undone

    def test_1_refuse(self):
        self.amqp_broker.refuse()

    def test_2_kill(self):
        self.amqp_broker.kill()

    def test_3_kill_by_the_system(self):
        os.kill(self.amqp_broker.pid, signal.SIGKILL)

    def test_4_close(self):
        self.doCleanups()
        self.amqp_broker.close()

class DEnds(BrokerMixin, unittest.TestCase):
    def test_1_kill_in_a_clean_up(self):
        connect(self.amqp_url)
        self.addCleanup(self.amqp_broker.kill)

    def test_2_the_broker_serves(self):
        connect(self.amqp_url)

class EConfigured(BrokerMixin, unittest.IsolatedAsyncioTestCase):
    amqp_broker_config = {"heartbeat": 7}

    async def test_async(self):
        async with await aio_pika.connect(self.amqp_url) as connection:
            await connection.channel()
        assert self.amqp_broker.pid not in PIDS and len(PIDS) == 1
        self.amqp_broker.partition()

    async def test_async_again(self):
        await (await aio_pika.connect(self.amqp_url)).close()

unittest.main()
"""


@pytest.fixture
def project(tmp_path: Path) -> ForeignProject:
    return ForeignProject(tmp_path / "project", tmp_path / "installed")


def test_test_cases_share_a_broker_that_heals(project: ForeignProject) -> None:
    ran = project.run("-W", "error", "-W", "default::ResourceWarning", "-c", CASES, TMPDIR=str(project.folder))
    assert ran.returncode == 0 and "Ran 11 tests" in ran.stderr and "subprocess" not in ran.stderr, ran.stderr
    assert list(project.folder.iterdir()) == []


@pytest.mark.rest("starts one more broker")
def test_a_variable_names_another_broker(project: ForeignProject) -> None:
    text = (
        "import pika, unittest\nfrom warren.testing import BrokerMixin\n"
        "class Case(BrokerMixin, unittest.TestCase):\n"
        "    def test_served(self):\n"
        "        pika.BlockingConnection(pika.URLParameters(self.amqp_url)).close()\n"
        "        assert self.amqp_broker.port == %d\n"
        "    def test_killed(self):\n"
        "        self.amqp_broker.kill()\n"
        "unittest.main()\n"
    )
    with Broker() as broker:
        variables = {"WARREN_TESTING_AMQP_URL": broker.url, "WARREN_TESTING_HTTP_URL": broker.http_url}
        ran = project.run("-c", text % broker.port, "-v", **variables)
        assert broker.running
    assert "OK (skipped=1)" in ran.stderr and "kill needs a broker that the tests have started" in ran.stderr
