"""Definitions loaded at the start: they replace the default user, are durable, and prevent the start if invalid."""

import json
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Queue

from tests.support.broker_process import BrokerProcess, run
from warren.broker.core.access.passwords import hash_password

pytestmark = pytest.mark.sockets
DOCUMENT: dict[str, Any] = {
    "users": [{"name": "alice", "password_hash": hash_password("secret", b"salt").decode(), "tags": "administrator"}],
    "vhosts": [{"name": "orders"}],
    "permissions": [{"user": "alice", "vhost": "orders", "configure": ".*", "write": ".*", "read": ".*"}],
    "queues": [{"vhost": "orders", "name": "q"}, {"vhost": "orders", "name": "amq.gen"}],
}


def configure(folder: Path, document: Any, **more: str) -> Path:
    """Write a configuration that loads the document."""
    (folder / "definitions.json").write_text(json.dumps(document))
    lines = [f"load_definitions = {folder / 'definitions.json'}"]
    lines += [f"{key.replace('__', '.')} = {value}" for key, value in more.items()]
    (folder / "warren.conf").write_text("\n".join(lines) + "\n")
    return folder / "warren.conf"


def login(daemon: BrokerProcess) -> Any:
    return daemon.connect(user="alice", password="secret", vhost="orders")


def test_what_was_loaded_survives_a_killed_broker_and_takes_the_place_of_the_default_user(
    daemon: BrokerProcess, tmp_path: Path
) -> None:
    daemon.start(config=configure(tmp_path, DOCUMENT))
    assert len(daemon.events("definitions_loaded")) == 1
    (left_out,) = daemon.events("definitions")
    assert left_out["what"] == "queue 'amq.gen' in vhost 'orders' is left out: its name is reserved"
    login(daemon).channel().declare("after", durable=True)
    daemon.kill()
    daemon.start()
    channel = login(daemon).channel()
    assert channel.count("q") == 0 and channel.count("after") == 0
    with pytest.raises(Exception, match="ACCESS_REFUSED"):
        daemon.connect()


def test_what_has_not_changed_is_skipped_at_the_next_start(daemon: BrokerProcess, tmp_path: Path) -> None:
    config = configure(tmp_path, DOCUMENT, definitions__skip_if_unchanged="true")
    daemon.start(config=config)
    login(daemon).channel().call(Queue.Delete, queue="q")
    daemon.stop()
    daemon.start(config=config)
    assert len(daemon.events("definitions_unchanged")) == 1
    login(daemon).channel().declare("q", durable=False)  # which would be refused, were it there
    daemon.stop()
    configure(tmp_path, DOCUMENT | {"queues": [{"vhost": "orders", "name": "new"}]})
    daemon.start(config=config)
    assert login(daemon).channel().count("new") == 0


def test_a_bad_file_ends_the_start_with_one_line_and_changes_nothing(daemon: BrokerProcess, tmp_path: Path) -> None:
    bad = DOCUMENT | {"bindings": [{"vhost": "orders", "source": "x", "destination": "q", "destination_type": "queue"}]}
    config = configure(tmp_path, bad)
    done = run("serve", "--amqp", "127.0.0.1:0", "--data", str(daemon.data), "--config", str(config))
    assert (done.returncode, done.stdout) == (78, "")
    (said,) = done.stderr.splitlines()
    line = json.loads(said)
    assert line["event"] == "cannot_load_definitions"
    assert line["reason"].startswith(f"{tmp_path}/definitions.json: no exchange 'x' in vhost 'orders' (")
    daemon.start()
    assert daemon.connect().channel().declare("q", durable=True)  # by the default user, in the default virtual host
