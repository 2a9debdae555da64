"""Federation links as operators' tools see them start, fail and end."""

import socket
from contextlib import closing

import pytest

from tests.support.polling import until_result

RECONNECT_S = 1


@pytest.fixture
def federated(api, path):
    """An exchange that a policy federates from all upstreams of its virtual host."""
    api.put(f"/exchanges/{path}/federated.x", {"type": "topic", "durable": True})
    body = {"pattern": "^federated", "definition": {"federation-upstream-set": "all"}, "apply-to": "exchanges"}
    api.put(f"/policies/{path}/p", body)
    return f"/federation-links/{path}"


def upstream(api, path, uri):
    value = {"uri": uri, "reconnect-delay": RECONNECT_S}
    api.put(f"/parameters/federation-upstream/{path}/up", {"value": value})


def runs(links):
    return [link["status"] for link in links] == ["running"]


def test_one_exchange_has_one_link_whose_uri_is_that_of_the_configuration(api, vhost, path, federated):
    upstream(api, path, f"amqp://{api.amqp}/%2f")
    (link,) = until_result(lambda: api.get(federated), len)
    assert (link["vhost"], link["type"], link["exchange"], link["upstream"]) == (vhost, "exchange", "federated.x", "up")
    assert link["uri"] == f"amqp://{api.amqp}/%2f" and link["status"] in ("starting", "running")
    (link,) = until_result(lambda: api.get(federated), runs)
    assert link["local_connection"] and api.get(f"{federated}/state/down") == []


def test_no_password_of_an_upstream_is_shown(api, path, federated):
    upstream(api, path, f"amqp://guest:guest@{api.amqp}/%2f?heartbeat=5")
    (link,) = until_result(lambda: api.get(federated), runs)
    assert api.amqp in link["uri"] and "guest" not in link["uri"]


def test_a_link_fails_with_a_reason_and_runs_when_its_upstream_is_there(api, path, federated):
    with closing(socket.socket()) as nobody:  # bound without listening, so that no other program gets the port
        nobody.bind(("127.0.0.1", 0))
        upstream(api, path, f"amqp://127.0.0.1:{nobody.getsockname()[1]}/%2f")
        (link,) = until_result(lambda: api.get(f"{federated}/state/down"), len)
        assert link["status"] == "error" and link["error"] and "local_connection" not in link
        upstream(api, path, f"amqp://{api.amqp}/%2f")
        until_result(lambda: api.get(federated), runs)


def test_a_restarted_link_runs_again_and_an_unknown_one_is_not_found(api, path, federated):
    upstream(api, path, f"amqp://{api.amqp}/%2f")
    (link,) = until_result(lambda: api.get(federated), runs)
    (node,) = [one["name"] for one in api.get("/nodes")]
    assert api.call("DELETE", f"/federation-links/vhost/{path}/00000000/{node}/restart").status == 404
    assert api.call("DELETE", f"/federation-links/vhost/{path}/{link['id']}/{node}/restart").status == 204
    (again,) = until_result(lambda: api.get(federated), runs)
    assert again["id"] == link["id"]


def test_without_the_policy_there_are_no_links(api, path, federated):
    upstream(api, path, f"amqp://{api.amqp}/%2f")
    until_result(lambda: api.get(federated), runs)
    api.delete(f"/policies/{path}/p")
    assert until_result(lambda: api.get(federated), lambda links: not links) == []
