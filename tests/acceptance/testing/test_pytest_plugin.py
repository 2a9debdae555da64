"""The fixtures for pytest in projects of others."""

import re
from pathlib import Path

import pytest

from tests.support.foreign_project import ForeignProject

pytestmark = pytest.mark.sockets
FOLDERS = ("broker", "federation", "plugins", "testing", "logs", "config")  # ours, at some level


@pytest.fixture
def project(tmp_path: Path) -> ForeignProject:
    """A project that has folders of the same names as ours, which cannot be imported."""
    project = ForeignProject(tmp_path / "project", tmp_path / "installed")
    for folder in FOLDERS:
        project.write(f"{folder}/__init__.py", "raise ImportError('the project')\n")
    project.write("uvloop.py", "raise ImportError('the project')\n")
    return project


def test_it_is_safe_in_a_project_with_any_folders(project: ForeignProject) -> None:
    project.write(
        "test_it.py",
        "import pika\ndef test_one(amqp_url):\n    pika.BlockingConnection(pika.URLParameters(amqp_url)).close()\n",
    )
    ran = project.pytest("-q")
    assert ran.returncode == 0 and "1 passed" in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.rest("starts pytest with workers")
def test_each_worker_has_a_broker_and_each_test_a_virtual_host(project: ForeignProject) -> None:
    project.write(
        "test_it.py",
        "import pytest\n"
        "@pytest.mark.parametrize('number', range(6))\n"
        "def test_one(number, amqp_broker, amqp_vhost, worker_id):\n"
        "    print('USED', worker_id, amqp_broker.pid, amqp_vhost)\n",
    )
    ran = project.pytest("-rP", "-n", "2")
    assert "6 passed" in ran.stdout, ran.stdout + ran.stderr
    used = re.findall(r"USED (\w+) (\d+) (\S+)", ran.stdout)
    assert len({pid for _, pid, _ in used}) == len({worker for worker, _, _ in used}) == 2
    assert all(re.fullmatch(r"test_one-\d+-\d+", name) for _, _, name in used)


def test_an_unused_plugin_imports_and_starts_nothing(project: ForeignProject) -> None:
    project.write("test_it.py", "def test_one():\n    pass\n")
    project.write(
        "conftest.py",
        "import sys\n"
        "def pytest_unconfigure():\n"
        "    print('IMPORTED', sorted(name for name in sys.modules if name.startswith('warren')))\n",
    )
    ran = project.pytest("-q", "-s")
    assert ran.returncode == 0, ran.stdout
    assert "IMPORTED ['warren', 'warren.testing', 'warren.testing.pytest_plugin']" in ran.stdout


def test_a_test_may_delete_its_virtual_host(project: ForeignProject) -> None:
    project.write("test_it.py", "def test_one(amqp_vhost):\n    amqp_vhost.delete()\n")
    ran = project.pytest("-q")
    assert ran.returncode == 0, ran.stdout


def test_faults_are_undone_after_each_test_before_its_fixtures_end(project: ForeignProject) -> None:
    project.write(
        "test_it.py",
        "import pika, pytest\n"
        "@pytest.fixture\n"
        "def publisher(amqp_broker, amqp_url):\n"
        "    yield\n"
        "    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:\n"
        "        channel = connection.channel()\n"
        "        channel.confirm_delivery()\n"
        "        channel.basic_publish('', 'q', b'x')\n"
        "@pytest.mark.parametrize('fault', ['refuse', 'block', 'fill_disk', 'delay'])\n"
        "def test_one(fault, publisher, amqp_broker):\n"
        "    getattr(amqp_broker, fault)(*[100_000_000] * (fault == 'delay'))\n"
        "    if fault == 'block':\n"
        "        pytest.fail('a failed test too')\n",
    )
    ran = project.pytest("-q")
    assert "1 failed, 3 passed" in ran.stdout and "error" not in ran.stdout, ran.stdout + ran.stderr


def test_a_failure_shows_what_the_broker_logged_in_this_test(project: ForeignProject) -> None:
    project.write(
        "test_it.py",
        "def test_one(amqp_broker):\n    amqp_broker.block()\n    amqp_broker.unblock()\n"
        "def test_two(amqp_broker):\n    amqp_broker.fill_disk()\n    assert False\n",
    )
    ran = project.pytest("-q")
    log = ran.stdout.partition("Broker log")[2]
    assert "disk" in log and "memory resource limit" not in log and "startup" not in log, ran.stdout


def test_a_broker_that_does_not_start_is_an_error_with_its_reason(project: ForeignProject) -> None:
    project.write(
        "conftest.py",
        "import pytest\n@pytest.fixture(scope='session')\ndef amqp_broker_config():\n    return {'hartbeat': 1}\n",
    )
    project.write("test_it.py", "def test_one(amqp_url):\n    pass\n")
    ran = project.pytest("-q")
    assert "1 error" in ran.stdout and "unknown key" in ran.stdout, ran.stdout


@pytest.mark.parametrize(
    "ends", ["kill_9", pytest.param("kill, close, keep_fault", marks=pytest.mark.rest("starts four brokers"))]
)
def test_a_broker_that_a_test_has_ended_is_replaced_for_the_next_test(project: ForeignProject, ends: str) -> None:
    """The ends: a kill -9, `kill`, `close`, and a fault that cannot be undone. The address stays the same."""
    project.write(
        "test_it.py",
        "import os, pika, pytest\n"
        "from warren.testing import BrokerError\n"
        "torn, addresses = [], set()\n"
        "@pytest.fixture\n"
        "def resource():\n"
        "    yield\n"
        "    torn.append(1)\n"
        "def kill_9(broker):\n"
        "    os.kill(broker.pid, 9)\n"
        "def kill(broker):\n"
        "    broker.kill()\n"
        "def close(broker):\n"
        "    broker.close()\n"
        "def keep_fault(broker):\n"
        "    broker.delay(1)\n"
        "    def refuse(control, **arguments):\n"
        "        raise BrokerError('it cannot listen again')\n"
        "    broker._do = refuse\n"
        f"@pytest.mark.parametrize('end', [{ends}])\n"
        "def test_one(end, resource, amqp_broker, amqp_url, monkeypatch):\n"
        "    monkeypatch.setattr(amqp_broker, '_do', amqp_broker._do)\n"
        "    pika.BlockingConnection(pika.URLParameters(amqp_url)).close()\n"
        "    addresses.add((amqp_broker.url, amqp_broker.http_url))\n"
        "    end(amqp_broker)\n"
        "def test_two(amqp_broker, amqp_url):\n"
        "    pika.BlockingConnection(pika.URLParameters(amqp_url)).close()\n"
        "    assert torn and addresses == {(amqp_broker.url, amqp_broker.http_url)}\n",
    )
    ran = project.pytest("-q")
    assert f"{ends.count(',') + 2} passed" in ran.stdout and "error" not in ran.stdout, ran.stdout + ran.stderr
