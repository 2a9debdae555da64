"""rabbitmqadmin, the Python script of RabbitMQ's management plugin, run as a command.

It is in Debian's package rabbitmq-server; WARREN_RABBITMQADMIN names another one.
"""

import json
import os
import shutil
import subprocess
import sys
import uuid

import pika
import pytest

from tests.support.polling import until

SCRIPT = os.environ.get("WARREN_RABBITMQADMIN") or shutil.which("rabbitmqadmin")
WITHIN_S = 60

pytestmark = pytest.mark.skipif(SCRIPT is None, reason="no rabbitmqadmin here: it is in Debian's rabbitmq-server")


class Admin:
    """The script with the address of the API and optionally a virtual host."""

    def __init__(self, api, vhost=None):
        self.api = api
        self.options = ["-H", api.host, "-P", str(api.port), "-u", "guest", "-p", "guest"]
        self.options += ["-V", vhost] if vhost else []

    def run(self, *arguments, text=None):
        line = [sys.executable, SCRIPT, *self.options, *arguments]
        return subprocess.run(line, input=text, capture_output=True, text=True, timeout=WITHIN_S, check=False)

    def __call__(self, *arguments, text=None):
        done = self.run(*arguments, text=text)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout.strip()

    def rows(self, *arguments):
        """Return the rows of a list as objects."""
        return json.loads(self("-f", "raw_json", *arguments))

    def refused(self, *arguments):
        """Return the reason of the failure."""
        done = self.run(*arguments)
        assert done.returncode == 1, (arguments, done.stdout, done.stderr)
        return (done.stdout + done.stderr).strip()


@pytest.fixture
def admin(api, vhost):
    return Admin(api, vhost)


@pytest.fixture
def everywhere(api):
    return Admin(api)


def test_queues_are_declared_listed_and_deleted(admin):
    assert (
        admin("declare", "queue", "name=a b/c+d%", "durable=false", 'arguments={"x-max-length": 5}') == "queue declared"
    )
    assert (
        admin("declare", "queue", "name=a b/c+d%", "durable=false", 'arguments={"x-max-length": 5}') == "queue declared"
    )
    table = admin("list", "queues")
    assert [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")] == ["name", "a b/c+d%"]
    (queue,) = admin.rows("list", "queues", "name", "durable", "arguments.x-max-length", "messages")
    assert (queue["name"], queue["durable"], queue["arguments"]) == ("a b/c+d%", False, {"x-max-length": 5})
    assert "inequivalent arg 'durable'" in admin.refused("declare", "queue", "name=a b/c+d%")
    assert admin("delete", "queue", "name=a b/c+d%") == "queue deleted"
    assert admin("list", "queues") == "No items"
    assert "Not found" in admin.refused("delete", "queue", "name=a b/c+d%")


def test_exchanges_and_bindings_are_declared_listed_and_deleted(admin):
    admin("declare", "queue", "name=q")
    assert admin("declare", "exchange", "name=x", "type=topic") == "exchange declared"
    assert admin("declare", "exchange", "name=y", "type=fanout", "auto_delete=true") == "exchange declared"
    listed = {row["name"]: row["type"] for row in admin.rows("list", "exchanges")}
    assert (listed[""], listed["amq.topic"], listed["x"], listed["y"]) == ("direct", "topic", "topic", "fanout")
    assert admin("declare", "binding", "source=x", "destination=q", "routing_key=a.#") == "binding declared"
    assert admin("declare", "binding", "source=y", "destination=x", "destination_type=exchange") == "binding declared"
    rows = {(row["source"], row["destination"], row["routing_key"]) for row in admin.rows("list", "bindings")}
    assert rows == {("", "q", "q"), ("x", "q", "a.#"), ("y", "x", "")}
    keys = admin.rows("list", "bindings", "source", "properties_key")
    (key,) = [row["properties_key"] for row in keys if row["source"] == "x"]
    binding = ("source=x", "destination_type=queue", "destination=q", f"properties_key={key}")
    assert admin("delete", "binding", *binding) == "binding deleted"
    keyless = ("source=y", "destination_type=exchange", "destination=x")
    assert admin("delete", "binding", *keyless) == "binding deleted"
    assert admin("delete", "exchange", "name=x") == "exchange deleted"


def test_messages_are_published_looked_at_taken_and_purged(admin):
    admin("declare", "queue", "name=q")
    assert admin("publish", "routing_key=q", "payload=one") == "Message published"
    assert admin("publish", "exchange=amq.default", "routing_key=q", 'properties={"priority": 3}', text="two") == (
        "Message published"
    )
    assert admin("publish", "exchange=amq.direct", "routing_key=nobody", "payload=x") == (
        "Message published but NOT routed"
    )
    looked = admin.rows("get", "queue=q", "count=2")
    assert [message["payload"] for message in looked] == ["one", "two"]
    assert looked[1]["properties"]["priority"] == 3 and not looked[0]["redelivered"]
    (taken,) = admin.rows("get", "queue=q", "ackmode=ack_requeue_false")
    assert (taken["payload"], taken["redelivered"], taken["message_count"]) == ("one", True, 1)
    assert admin("purge", "queue", "name=q") == "queue purged"
    assert admin("get", "queue=q") == "No items"
    assert "Not found" in admin.refused("get", "queue=none")


def test_users_and_permissions_are_managed(everywhere, vhost):
    name = f"conformance.{uuid.uuid4().hex[:8]}"
    try:
        assert everywhere("declare", "user", f"name={name}", "password=x", "tags=monitoring,policymaker") == (
            "user declared"
        )
        (user,) = [row for row in everywhere.rows("list", "users") if row["name"] == name]
        assert "monitoring" in user["tags"] and "policymaker" in user["tags"]
        rights = (f"vhost={vhost}", f"user={name}", "configure=.*", "write=^a", "read=")
        assert everywhere("declare", "permission", *rights) == "permission declared"
        (row,) = [row for row in everywhere.rows("list", "permissions") if row["user"] == name]
        assert (row["vhost"], row["configure"], row["write"], row["read"]) == (vhost, ".*", "^a", "")
        assert everywhere("delete", "permission", f"vhost={vhost}", f"user={name}") == "permission deleted"
    finally:
        assert everywhere("delete", "user", f"name={name}") == "user deleted"


def test_virtual_hosts_and_their_limits_are_managed(everywhere):
    name = f"conformance/{uuid.uuid4().hex[:8]}"
    assert everywhere("declare", "vhost", f"name={name}") == "vhost declared"
    assert name in [row["name"] for row in everywhere.rows("list", "vhosts")]
    assert everywhere("declare", "vhost_limit", f"vhost={name}", "name=max-queues", "value=3") == "vhost_limit declared"
    (limit,) = [row for row in everywhere.rows("list", "vhost_limits") if row["vhost"] == name]
    assert limit["value"] == {"max-queues": 3}
    assert everywhere("delete", "vhost_limit", f"vhost={name}", "name=max-queues") == "vhost_limit deleted"
    assert everywhere("delete", "vhost", f"name={name}") == "vhost deleted"


@pytest.mark.parametrize("kind", ["policy", "operator_policy"])
def test_policies_are_managed(admin, vhost, kind):
    definition = '{"max-length": 10}'
    given = ("name=p", "pattern=^q", f"definition={definition}", "priority=2", "apply-to=queues")
    assert admin("declare", kind, *given) == f"{kind} declared"
    listed = "policies" if kind == "policy" else "operator_policies"
    (policy,) = [row for row in admin.rows("list", listed) if row["vhost"] == vhost]
    assert (policy["definition"], policy["priority"], policy["apply-to"]) == ({"max-length": 10}, 2, "queues")
    assert admin("delete", kind, "name=p") == f"{kind} deleted"
    assert "validation failed" in admin.refused("declare", kind, "name=p", "pattern=^q", 'definition={"x": 1}').lower()


def test_parameters_are_managed(admin, vhost):
    assert (
        "validation failed"
        in admin.refused("declare", "parameter", "component=bogus", "name=u", 'value={"uri": "amqp://"}').lower()
    )
    assert "Not found" in admin.refused("delete", "parameter", "component=bogus", "name=u")
    assert not [row for row in admin.rows("list", "parameters") if row["vhost"] == vhost]


def test_connections_are_listed_and_closed(admin, everywhere, api, vhost):
    host, _, port = api.amqp.rpartition(":")
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port), vhost))
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_consume("q", lambda *_: None, consumer_tag="t")
    (row,) = until(lambda: of_vhost(everywhere, vhost, "connections", "name", "user", "channels", "vhost"))
    until(lambda: of_vhost(everywhere, vhost, "channels", "name", "vhost"))
    (consumer,) = until(lambda: admin.rows("list", "consumers"))
    assert (consumer["consumer_tag"], consumer["queue"]["name"], row["user"]) == ("t", "q", "guest")
    assert everywhere("close", "connection", f"name={row['name']}") == "connection closed"
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(WITHIN_S)
    assert (closed.value.reply_code, closed.value.reply_text) == (
        320, "CONNECTION_FORCED - Closed via management plugin"
    )  # fmt: skip


def of_vhost(admin, vhost, *words):
    return [row for row in admin.rows("list", *words) if row.get("vhost") == vhost]


def test_overview_and_nodes_are_shown_in_every_format(everywhere):
    (overview,) = everywhere.rows("show", "overview")
    assert {"rabbitmq_version", "cluster_name"} <= overview.keys() and "queues" in overview["object_totals"]
    (node,) = everywhere.rows("list", "nodes")
    assert node["type"] == "disc" and node["mem_used"] > 0
    for form in ("table", "long", "kvp", "pretty_json", "bash"):
        everywhere("-f", form, "list", "nodes", "name")
    assert everywhere("-f", "tsv", "list", "nodes", "name").splitlines() == ["name", node["name"]]
    assert "name" in everywhere("list", "queues", "name") or everywhere("list", "queues", "name") == "No items"


def test_definitions_are_exported_and_imported(admin, vhost, tmp_path):
    admin("declare", "queue", "name=q", 'arguments={"x-max-length": 5}')
    admin("declare", "exchange", "name=x", "type=headers")
    admin("declare", "binding", "source=x", "destination=q", 'arguments={"x-match": "any", "a": 1}')
    admin("declare", "policy", "name=p", "pattern=.*", 'definition={"expires": 60000}')
    file = tmp_path / "definitions.json"
    assert "Exported definitions" in admin("export", str(file))
    before = json.loads(file.read_text())
    assert [queue["name"] for queue in before["queues"]] == ["q"] and before["policies"][0]["name"] == "p"
    for kind, name in (("queue", "q"), ("exchange", "x"), ("policy", "p")):
        admin("delete", kind, f"name={name}")
    assert "Uploaded definitions" in admin("import", str(file))
    assert "Exported definitions" in admin("export", str(file))
    after = json.loads(file.read_text())
    assert {kind: after[kind] for kind in ("queues", "exchanges", "bindings", "policies")} == {
        kind: before[kind] for kind in ("queues", "exchanges", "bindings", "policies")
    }


def test_all_definitions_are_exported_and_imported(everywhere, vhost, tmp_path):
    file = tmp_path / "all.json"
    everywhere("export", str(file))
    assert vhost in [row["name"] for row in json.loads(file.read_text())["vhosts"]]
    assert "Uploaded definitions" in everywhere("import", str(file))


def test_a_wrong_password_is_an_error(api):
    admin = Admin(api)
    admin.options[-1] = "wrong"
    assert admin.refused("list", "queues") == "*** Access refused: /api/queues?columns=name,messages"
