"""`warren migrate` between two Warrens, as an operator uses it."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import BrokerProcess, command_line, environment_of, run
from tests.support.polling import until

pytestmark = pytest.mark.sockets
OLD, NEW = "old", "new"


class Pair:
    """An old and a new broker in memory, and the command between them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.brokers = {
            name: BrokerProcess(folder / name, "--http", "127.0.0.1:0", memory=True, node=f"{name}@test")
            for name in (OLD, NEW)
        }
        for broker in self.brokers.values():
            broker.start()

    @property
    def old(self) -> BrokerProcess:
        return self.brokers[OLD]

    @property
    def new(self) -> BrokerProcess:
        return self.brokers[NEW]

    def url(self, name: str, user: str = "guest:guest@") -> str:
        return f"http://{user}{self.brokers[name].addresses['http'][0]}"

    def migrate(self, *options: str, timeout: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the command between the brokers, by default for 40 s at most."""
        words = ("--from", self.url(OLD), "--to", self.url(NEW), *(("--timeout", "40") if timeout else ()))
        return self.run(*words, *options)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run("migrate", *words, PYTHONPATH=environment_of(self.folder)["PYTHONPATH"])

    def ask(self, name: str, method: str, path: str, body: object = None) -> Any:
        response = self.brokers[name].http().request(method, path, body)
        assert response.status < 300, (path, response)
        return response.json if response.body else None

    def messages(self, name: str, queue: str) -> int:
        return int(self.ask(name, "GET", f"/queues/%2f/{queue}")["messages"])

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    yield pair
    pair.close()


def fill(pair: Pair, queue: str, count: int, **fields: Any) -> None:
    """Declare a queue at the old broker, and publish to it."""
    client = pair.old.connect()
    channel = client.channel()
    channel.declare(queue, durable=True, **fields)
    channel.confirm()
    for number in range(count):
        channel.publish("", queue, b"%d" % number, {"delivery_mode": 2})
    channel.confirms(range(1, count + 1))
    client.close()


def without(document: dict[str, Any]) -> dict[str, Any]:
    """Return definitions without objects of each broker, such as the user of the command."""
    own = ("original_cluster_name", "explanation", "global_parameters")
    return {
        name: sorted([one for one in part if one.get("name") != "guest"], key=str) if isinstance(part, list) else part
        for name, part in document.items()
        if name not in own
    }


def test_definitions_and_messages_are_at_the_new_broker_afterwards(pair: Pair) -> None:
    fill(pair, "orders", 300)
    fill(pair, "empty", 0)
    channel = pair.old.connect().channel()
    channel.exchange("events", "topic", durable=True)
    channel.bind("orders", "events", "order.#")
    channel.client.close()
    pair.ask(OLD, "PUT", "/vhosts/shop")
    pair.ask(OLD, "PUT", "/users/clerk", {"password": "secret", "tags": "monitoring"})
    pair.ask(OLD, "PUT", "/permissions/%2f/clerk", {"configure": "", "write": "", "read": "orders"})
    policy = {"pattern": "^orders", "definition": {"max-length": 1000}, "apply-to": "queues"}
    pair.ask(OLD, "PUT", "/policies/%2f/limit", policy)
    done = pair.migrate()
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "orders          300            0         0" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("300 moved, 0 ready, 0 unacked; 2 of 2 queues empty; 0 connections")
    assert without(pair.ask(NEW, "GET", "/definitions")) == without(pair.ask(OLD, "GET", "/definitions"))
    channel = pair.new.connect().channel()
    assert channel.drain("orders") == [b"%d" % number for number in range(300)]
    assert pair.ask(NEW, "GET", "/parameters") == [], "the links are removed"
    assert pair.messages(OLD, "orders") == 0


def test_a_broker_is_not_migrated_to_itself(pair: Pair) -> None:
    fill(pair, "orders", 20)
    source, data = pair.url(OLD), str(Path(pair.old.addresses["control"][0]).parent)
    for target in (("--to", source), ("--to", source.replace("127.0.0.1", "localhost")), ("--data", data)):
        done = pair.run("--from", source, *target)
        assert done.returncode == 64, done
        says = "source and target are the same broker: name another one with --to or --data"
        assert done.stderr == f"warren migrate: {says}\n"
    assert pair.messages(OLD, "orders") == 20


def test_a_dry_run_shows_what_would_be_moved_and_changes_nothing(pair: Pair) -> None:
    fill(pair, "orders", 20)
    fill(pair, "temporary", 0, auto_delete=True)
    before = pair.ask(NEW, "GET", "/definitions")
    done = pair.migrate("--dry-run")
    assert done.returncode == 0, done
    assert "queue 'temporary' in vhost '/': it is deleted with its last consumer, who declares it again" in done.stdout
    assert "messages: 20 ready, 0 unacked, in 1 queues\n  queue 'orders' in vhost '/': 20 ready" in done.stdout
    assert without(pair.ask(NEW, "GET", "/definitions")) == without(before)
    assert pair.messages(OLD, "orders") == 20


def test_a_broker_with_a_part_of_an_import_is_neither_source_nor_target(pair: Pair) -> None:
    path = "/global-parameters/internal_unfinished_import"
    for name, place in ((NEW, "target"), (OLD, "source")):
        pair.ask(name, "PUT", path, {"value": [{}]})
        done = pair.migrate("--definitions-only")
        assert done.returncode == 69 and f"the {place}, " in done.stderr
        assert "has only a part of an import of definitions" in done.stderr
        pair.ask(name, "DELETE", path)


def test_definitions_that_the_new_broker_refuses_stop_the_command_before_it_does_anything(pair: Pair) -> None:
    fill(pair, "orders", 1)
    pair.ask(NEW, "PUT", "/queues/%2f/other", {"durable": True})
    pair.ask(NEW, "PUT", "/vhost-limits/%2f/max-queues", {"value": 1})
    done = pair.migrate()
    assert done.returncode == 65 and done.stderr.count("\n") == 1, done
    assert "would exceed the limit of 1 queue(s)" in done.stderr
    assert [queue["name"] for queue in pair.ask(NEW, "GET", "/queues")] == ["other"]
    assert pair.messages(OLD, "orders") == 1


def test_a_queue_that_exists_with_another_type_gets_the_messages_only_if_that_is_wanted(pair: Pair) -> None:
    fill(pair, "orders", 3)
    pair.ask(NEW, "PUT", "/queues/%2f/orders", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    done = pair.migrate()
    assert done.returncode == 65, done
    assert "queue 'orders' in vhost '/': exists there with type quorum, not classic" in done.stderr
    assert (pair.messages(OLD, "orders"), pair.messages(NEW, "orders")) == (3, 0)
    assert pair.migrate("--leave-out").returncode == 0
    assert (pair.messages(OLD, "orders"), pair.messages(NEW, "orders")) == (0, 3)
    assert pair.ask(NEW, "GET", "/queues/%2f/orders")["type"] == "quorum"


def test_it_ends_when_no_client_is_left_and_the_last_messages_are_moved(pair: Pair) -> None:
    fill(pair, "orders", 10)
    client = pair.old.connect()
    channel = client.channel()
    channel.consume("orders", no_ack=False)
    held = channel.deliveries(10)
    going = pair.migrate("--timeout", "5", timeout=False)
    assert going.returncode == 75 and "the links stay and continue" in going.stderr, going
    assert "1 connections of clients at the source" in going.stdout and " 10 unacked" in going.stdout
    assert [one["name"] for one in pair.ask(NEW, "GET", "/parameters/federation-upstream")] != []
    channel.ack(held[4].tag, multiple=True)
    client.close()
    until(lambda: pair.messages(NEW, "orders") == 5, lambda: pair.messages(NEW, "orders"))
    done = pair.migrate()
    assert done.returncode == 0 and "an earlier run is continued" in done.stdout, done
    assert done.stdout.splitlines()[-1].startswith("5 moved")


def test_once_moves_a_backlog_while_clients_stay(pair: Pair) -> None:
    fill(pair, "orders", 100)
    client = pair.old.connect()
    done = pair.migrate("--once")
    assert done.returncode == 0, done
    assert pair.messages(NEW, "orders") == 100
    client.close()


def test_stop_removes_the_links_and_messages_stay_where_they_are(pair: Pair) -> None:
    fill(pair, "orders", 1)
    client = pair.old.connect()
    assert pair.migrate("--timeout", "3", timeout=False).returncode == 75
    stopped = pair.migrate("--stop")
    assert stopped.returncode == 0 and "no link from Warren" in stopped.stdout, stopped
    assert pair.ask(NEW, "GET", "/parameters") == []
    channel = client.channel()
    channel.publish("", "orders", b"stays")
    until(lambda: pair.messages(OLD, "orders") == 1, "the message")
    client.close()


@pytest.mark.rest("the command waits for some seconds")
def test_stop_needs_no_source_and_says_that_another_run_goes_on(pair: Pair) -> None:
    fill(pair, "orders", 1)
    client = pair.old.connect()
    words = ("migrate", "--from", pair.url(OLD), "--to", pair.url(NEW))
    environment = {**os.environ, "PYTHONPATH": environment_of(pair.folder)["PYTHONPATH"]}
    other = subprocess.Popen(command_line(*words), env=environment, stdout=subprocess.DEVNULL)
    try:
        until(lambda: pair.ask(NEW, "GET", "/parameters") != [], "the links of the other run")
        stopped = pair.migrate("--stop", timeout=False)
        assert stopped.returncode == 69 and "another run of this command makes the links again" in stopped.stderr
    finally:
        other.kill()
        other.wait()
    client.close()
    pair.old.close()
    stopped = pair.migrate("--stop", timeout=False)
    assert stopped.returncode == 0 and "does not answer" in stopped.stdout, stopped
    assert pair.ask(NEW, "GET", "/parameters") == []


def test_a_queue_that_clients_declare_meanwhile_is_taken_along(pair: Pair) -> None:
    fill(pair, "first", 3)
    client = pair.old.connect()
    assert pair.migrate("--timeout", "3", timeout=False).returncode == 75
    fill(pair, "second", 4)
    client.close()
    assert pair.migrate().returncode == 0
    assert (pair.messages(NEW, "first"), pair.messages(NEW, "second")) == (3, 4)


def test_only_a_chosen_virtual_host_is_moved(pair: Pair) -> None:
    fill(pair, "orders", 3)
    pair.ask(OLD, "PUT", "/vhosts/shop")
    pair.ask(OLD, "PUT", "/queues/shop/sold", {"durable": True})
    done = pair.migrate("--vhost", "shop")
    assert done.returncode == 0, done
    assert [(one["vhost"], one["name"]) for one in pair.ask(NEW, "GET", "/queues")] == [("shop", "sold")]
    assert pair.messages(OLD, "orders") == 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--vhost", "/", "--vhost", "nope"), "has no virtual host 'nope': check its name"),
        (("--vhost", ""), "--vhost"),
        (("--amqp", "http://old"), "--amqp: not an amqp:// or amqps:// URI"),
    ],
)
def test_a_wrong_option_ends_the_command_before_it_changes_anything(
    pair: Pair, words: tuple[str, ...], says: str
) -> None:
    pair.ask(OLD, "PUT", "/users/shop", {"password": "shop", "tags": ""})
    for mode in ((), ("--dry-run",)):
        done = pair.migrate(*words, *mode)
        assert done.returncode == 64 and says in done.stderr and done.stderr.count("\n") == 1, done
    assert [user["name"] for user in pair.ask(NEW, "GET", "/users")] == ["guest"]


def test_a_dry_run_of_stop_keeps_the_links(pair: Pair) -> None:
    fill(pair, "orders", 1)
    client = pair.old.connect()
    assert pair.migrate("--timeout", "3", timeout=False).returncode == 75
    done = pair.migrate("--stop", "--dry-run")
    assert done.returncode == 0 and done.stdout.startswith("1 links from Warren"), done
    assert done.stdout.endswith(" would be removed\n")
    assert len(pair.ask(NEW, "GET", "/parameters/federation-upstream")) == 1
    client.close()


@pytest.mark.parametrize(
    ("tag", "reason"), [("", "Not management user"), ("monitoring", "User not authorised to access object")]
)
def test_a_user_without_the_tag_is_told_which_one_is_missing(pair: Pair, tag: str, reason: str) -> None:
    pair.ask(OLD, "PUT", "/users/mover", {"password": "mover", "tags": tag})
    done = pair.run("--from", pair.url(OLD, "mover:mover@"), "--to", pair.url(NEW))
    says = f"a broker refuses the user: {reason}: both users need the tag administrator (warrenctl set_user_tags)"
    assert (done.returncode, done.stderr) == (69, f"warren migrate: {says}\n")


def test_definitions_alone_move_no_message(pair: Pair) -> None:
    fill(pair, "orders", 3)
    assert pair.migrate("--definitions-only").returncode == 0
    assert (pair.messages(OLD, "orders"), pair.messages(NEW, "orders")) == (3, 0)


def test_few_links_at_a_time_move_many_queues(pair: Pair) -> None:
    for number in range(6):
        fill(pair, f"q{number}", 2)
    assert pair.migrate("--links", "2").returncode == 0
    assert [pair.messages(NEW, f"q{number}") for number in range(6)] == [2] * 6


@pytest.mark.rest("some looks at both brokers")
def test_queues_take_turns_where_the_new_broker_runs_few_links(pair: Pair) -> None:
    restart_with_links(pair, 2)
    for number in range(6):
        fill(pair, f"q{number}", 2)
    done = pair.migrate()
    assert done.returncode == 0, done
    assert "the target has places for 2 of 6 links (warren.federation_link_limit): queues take turns" in done.stdout
    assert [pair.messages(NEW, f"q{number}") for number in range(6)] == [2] * 6


@pytest.mark.rest("the time for which all links may be refused")
def test_a_new_broker_that_runs_no_link_ends_the_command(pair: Pair) -> None:
    restart_with_links(pair, 0)
    fill(pair, "orders", 2)
    done = pair.migrate()
    assert done.returncode == 69 and done.stderr.count("\n") == 1, done
    assert "the target runs none of the links: warren.federation_link_limit is reached there" in done.stderr
    assert pair.messages(OLD, "orders") == 2


def restart_with_links(pair: Pair, limit: int) -> None:
    pair.new.stop()
    pair.new.configure(f"warren.federation_link_limit = {limit}")
    pair.new.start()


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (("--from", "http://guest:wrong@{old}"), 69, "a broker refuses user or password: check those of --from"),
        (("--from", "http://127.0.0.1:1"), 69, "no broker answers: 127.0.0.1:1: "),
        (("--from", "amqp://{old}"), 64, "not an http:// or https:// URL"),
        (("--from", "http://{old}", "--links", "0"), 64, "'0' is no positive number"),
        ((), 64, "missing: --from"),
    ],
)
def test_what_prevents_a_migration_is_one_line(pair: Pair, words: tuple[str, ...], status: int, text: str) -> None:
    done = pair.run(*[word.format(old=pair.old.addresses["http"][0]) for word in words])
    assert done.returncode == status and text in done.stderr and done.stderr.count("\n") == 1, done


def test_a_user_who_may_not_read_the_queues_is_named(pair: Pair) -> None:
    fill(pair, "orders", 1)
    pair.ask(OLD, "PUT", "/users/mover", {"password": "mover", "tags": "administrator"})
    pair.ask(OLD, "PUT", "/permissions/%2f/mover", {"configure": "", "write": "", "read": "^other$"})
    done = pair.run("--from", pair.url(OLD, "mover:mover@"), "--to", pair.url(NEW))
    assert done.returncode == 69, done
    assert "user 'mover' has no read permission at the old broker for queue 'orders' in vhost '/'" in done.stderr
