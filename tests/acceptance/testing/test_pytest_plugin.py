"""The fixtures for pytest in projects of others."""

import re
from pathlib import Path

import pytest

from tests.support.foreign_project import ForeignProject
from warren.testing import Broker

pytestmark = pytest.mark.sockets
FOLDERS = ("broker", "federation", "plugins", "testing", "logs", "config")  # ours, at some level
PRINTS_IMPORTS = """
import sys
def pytest_unconfigure():
    print('IMPORTED', sorted(name for name in sys.modules if name.startswith('warren')))
"""


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
    project.write("conftest.py", PRINTS_IMPORTS)
    ran = project.pytest("-q", "-s")
    assert ran.returncode == 0, ran.stdout
    assert "IMPORTED ['warren', 'warren.testing', 'warren.testing.pytest_plugin']" in ran.stdout


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


def test_a_test_may_delete_its_virtual_host_and_one_without_the_broker_asks_it_for_nothing(
    project: ForeignProject,
) -> None:
    """A test that uses it without a fixture, such as by a function that a conftest.py has, leaves no fault either."""
    project.write(
        "test_it.py",
        "brokers, calls = [], []\n"
        "def test_one(amqp_broker, amqp_vhost):\n"
        "    brokers.append(amqp_broker)\n"
        "    amqp_vhost.delete()\n"
        "def test_two():\n"
        "    do = brokers[0]._do\n"
        "    brokers[0]._do = lambda *words, **named: calls.append(words) or do(*words, **named)\n"
        "def test_three():\n"
        "    assert calls == []\n"
        "    brokers[0].refuse()\n"
        "def test_four():\n"
        "    assert calls == [('refuse',), ('reset',)]\n",
    )
    ran = project.pytest("-q")
    assert "4 passed" in ran.stdout, ran.stdout + ran.stderr


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


MORE_ENDS = "kill, kill_twice, end, close, keep_fault, kill_in_the_end_of_a_fixture, kill_in_a_wider_fixture"


@pytest.mark.parametrize("ends", ["kill_9", pytest.param(MORE_ENDS, marks=pytest.mark.rest("starts eight brokers"))])
def test_a_broker_that_a_test_has_ended_is_replaced_for_the_next_test(
    project: ForeignProject, tmp_path: Path, ends: str
) -> None:
    """The ends: kills, SIGTERM, `close`, a fault that cannot be undone, and kills when the fixtures of a test end.

    The address stays the same, and nothing is left behind.
    """
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    project.write(
        "test_it.py",
        "import os, pika, pytest, signal\n"
        "from warren.testing import BrokerError\n"
        "torn, addresses = [], set()\n"
        "@pytest.fixture\n"
        "def wider(amqp_broker):\n"
        "    yield later\n"
        "    [os.kill(amqp_broker.pid, 9) for name in later if name == 'wider']\n"
        "@pytest.fixture\n"
        "def resource(wider, amqp_broker, amqp_url):\n"
        "    yield\n"
        "    if amqp_broker.running:\n"  # it was neither closed nor unable to undo its faults
        "        pika.BlockingConnection(pika.URLParameters(amqp_url)).close()\n"
        "    torn.append(1)\n"
        "    [os.kill(amqp_broker.pid, 9) for name in later if name == 'inner']\n"
        "later = []\n"
        "@pytest.fixture(autouse=True)\n"
        "def nothing_later():\n"
        "    later.clear()\n"
        "def kill_in_the_end_of_a_fixture(broker):\n"
        "    later.append('inner')\n"
        "def kill_in_a_wider_fixture(broker):\n"
        "    later.append('wider')\n"
        "def kill_twice(broker):\n"
        "    broker.kill()\n"
        "    broker.start()\n"
        "    broker.kill()\n"
        "def end(broker):\n"
        "    os.kill(broker.pid, signal.SIGTERM)\n"
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
    ran = project.pytest("-q", TMPDIR=str(temporary))
    assert f"{ends.count(',') + 2} passed" in ran.stdout and "error" not in ran.stdout, ran.stdout + ran.stderr
    assert list(temporary.iterdir()) == []


SITES = """
import pika

def connect(site):
    return pika.BlockingConnection(pika.URLParameters(site.url)).channel()

def test_one(amqp_sites, amqp_broker, amqp_vhost):
    north, south, west = amqp_sites(3)
    assert north.broker is amqp_broker and north.name != amqp_vhost.name
    print("USED", *(site.broker.pid for site in (north, south, west)))
    assert len({site.broker.pid for site in (north, south, west)}) == 3
    for site in (south, north):
        channel = connect(site)
        channel.queue_declare("q", durable=True)
    south.federate_queue("q", north)
    channel.basic_publish("", "q", b"x")
    assert next(connect(south).consume("q", inactivity_timeout=30))[2] == b"x"
    north.broker.partition(south.broker)
    south.broker.refuse()
    west.broker.kill()

def test_two(amqp_sites):
    sites = amqp_sites(3)
    print("USED", *(site.broker.pid for site in sites[:2]))
    for site in sites:
        connect(site).queue_declare("q", durable=True)
    sites[1].broker.block()
    assert not sites[0].name.startswith("test_two"), "a failure shows the logs"
"""


@pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n", "2", "--dist", "each"), marks=pytest.mark.rest("starts six brokers"))]
)
def test_sites_are_brokers_of_a_worker_which_its_tests_share_and_which_heal(
    project: ForeignProject, workers: tuple[str, ...]
) -> None:
    project.write("test_it.py", SITES)
    ran = project.pytest("-rA", *workers)
    count = 2 if workers else 1
    assert f"{count} failed, {count} passed" in ran.stdout, ran.stdout + ran.stderr
    used = [line.split()[1:] for line in re.findall(r"USED[ \d]+", ran.stdout)]
    first, second = [line for line in used if len(line) == 3], [line for line in used if len(line) == 2]
    assert sorted(line[:2] for line in first) == sorted(second) and len(first) == count
    assert len({pid for line in first for pid in line}) == 3 * count
    logs = re.findall(r"-+ Broker log 2 -+\n(.*?)\n-+ Broker log 3 -+\n(.*?)\n[_=]", ran.stdout, re.DOTALL)
    assert ["memory resource limit" in log for each in logs for log in each] == [True, False] * count


OWN_OR_ANOTHER = """
import os, pika, pytest, unittest, warren.testing

class Case(warren.testing.BrokerMixin, unittest.TestCase):
    def test_served(self):
        self.assertEqual(self.amqp_broker.port, int(os.environ["PORT"]))

@pytest.mark.parametrize("number", range(2))
def test_served(amqp_broker, amqp_vhost, amqp_url, number):
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as connection:
        assert connection.channel().queue_declare("q", durable=True).method.message_count == 0
    assert amqp_broker.port == int(os.environ["PORT"])
    amqp_broker.refuse()
    print("USED", amqp_vhost)

def test_killed(amqp_broker, amqp_url):
    amqp_broker.kill()

def test_cut_off(amqp_broker, amqp_url):
    amqp_broker.partition()

def test_sites(amqp_sites):
    north, south = amqp_sites(2)
    south.federate_queue("q", north)
    assert north.broker is south.broker and north.name != south.name
"""


@pytest.mark.parametrize(
    ("way", "workers"),
    [
        ("option", ()),
        pytest.param("variable", (), marks=pytest.mark.rest("runs pytest")),
        pytest.param("option", ("-n", "2"), marks=pytest.mark.rest("starts pytest with workers")),
    ],
)
def test_the_same_tests_with_another_broker_skip_what_it_cannot_do(
    project: ForeignProject, way: str, workers: tuple[str, ...]
) -> None:
    project.write("test_it.py", OWN_OR_ANOTHER)
    with Broker() as broker:
        names = ("--amqp-url", "--amqp-http-url"), ("WARREN_TESTING_AMQP_URL", "WARREN_TESTING_HTTP_URL")
        options, variables = (dict(zip(each, (broker.url, broker.http_url), strict=True)) for each in names)
        words = [word for pair in options.items() for word in pair] if way == "option" else []
        ran = project.pytest("-rA", *workers, *words, PORT=str(broker.port), **variables if way == "variable" else {})
        assert broker.running and [row["name"] for row in broker.api.call("GET", "vhosts")] == ["/"]
    assert "5 passed, 1 skipped" in ran.stdout, ran.stdout + ran.stderr
    assert f"kill needs a broker that the tests have started, and that at 127.0.0.1:{broker.port}" in ran.stdout
    assert len(set(re.findall(r"USED (\S+)", ran.stdout))) == 2


def test_a_project_can_leave_the_plugin_out(project: ForeignProject) -> None:
    project.write("pytest.ini", "[pytest]\naddopts = -p no:warren\n")
    project.write("test_it.py", "def test_one():\n    pass\ndef test_two(amqp_url):\n    pass\n")
    project.write("conftest.py", PRINTS_IMPORTS)
    ran = project.pytest("-q", "-s")
    assert "1 passed, 1 error" in ran.stdout and "fixture 'amqp_url' not found" in ran.stdout, ran.stdout
    assert "IMPORTED []" in ran.stdout
    assert "unrecognized arguments: --amqp-url" in project.pytest("--amqp-url", "amqp://localhost").stderr


def test_a_failure_with_a_broker_that_is_there_names_the_keys_that_it_lacks(project: ForeignProject) -> None:
    project.write(
        "conftest.py",
        """
import pytest
@pytest.fixture(scope="session")
def amqp_broker_config():
    return {"max_message_size": 1, "heartbeat": 10}
""",
    )
    project.write("test_it.py", "def test_one(amqp_url):\n    assert False\n")
    says = "--amqp-url: the broker there does not have the keys of amqp_broker_config: max_message_size, heartbeat"
    with Broker() as broker:
        ran = project.pytest("--amqp-url", broker.url, "--amqp-http-url", broker.http_url)
    assert "1 failed" in ran.stdout and says in ran.stdout, ran.stdout
    assert says not in project.pytest().stdout
