"""Defaults of new virtual hosts: limits, operator policies and users by the configuration."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from warren.broker import logs
from warren.broker.app.build import build_node
from warren.broker.app.open_storage import Store
from warren.broker.config import Config, ConfigError
from warren.broker.config.printing import text_of
from warren.broker.core.access.passwords import verify_password
from warren.broker.core.node.node import Node

from ..config.loading import load

CONF = """
default_limits.vhosts.3.max_queues = 1
default_limits.vhosts.2.pattern = ^none
default_limits.vhosts.2.max_queues = 2
default_limits.vhosts.10.pattern = ^qa
default_limits.vhosts.10.max_connections = 5
default_limits.vhosts.10.max_queues = 10
default_policies.operator.short.vhost_pattern = ^qa
default_policies.operator.short.queue_pattern = ^tmp
default_policies.operator.short.expires = 1h30m
default_policies.operator.short.max_length_bytes = 1KB
default_policies.operator.every.message_ttl = 500
default_policies.operator.every.delivery_limit = 7
default_users.tester.vhost_pattern = ^qa
default_users.tester.password = secret
default_users.tester.tags = management, policymaker
default_users.tester.write = ^$
default_users.a\\.b.configure = ^a
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "rabbitmq.conf"
    path.write_text(CONF)
    return path


def node_of(config: Config) -> Node:
    return build_node(config, FakeClock(), Store(replace(config, memory=True)))


def limits_of(node: Node, vhost: str) -> object:
    return node.parameters.get(vhost, "vhost-limits", "limits")


@pytest.fixture
def node(conf: Path) -> Node:
    return node_of(load(conf))


def rights(node: Node, user: str, vhost: str) -> tuple[str, str, str] | None:
    permission = node.users.find(user).permissions.get(vhost)
    return permission and (permission.configure, permission.write, permission.read)


def test_a_new_virtual_host_gets_what_matches_its_name(node: Node) -> None:
    node.add_vhost("qa1")
    assert limits_of(node, "qa1") == {"max-connections": 5, "max-queues": 10}
    policies = {policy.name: (policy.pattern, policy.definition) for policy in node.policies.all("qa1", operator=True)}
    assert policies == {
        "short": ("^tmp", {"expires": 5_400_000, "max-length-bytes": 1024}),
        "every": (".*", {"message-ttl": 500, "delivery-limit": 7}),
    }
    tester = node.users.find("tester")
    assert verify_password(tester.password_hash, b"secret", tester.hashing_algorithm)
    assert tester.tags == ("management", "policymaker")
    assert rights(node, "tester", "qa1") == (".*", "^$", ".*")
    assert rights(node, "a.b", "qa1") == ("^a", ".*", ".*") and not node.users.find("a.b").password_hash


def test_the_first_virtual_host_and_others_get_what_matches_every_name(node: Node) -> None:
    node.add_vhost("prod")
    for vhost in ("/", "prod"):
        assert limits_of(node, vhost) == {"max-queues": 1}, "the others do not match"
        assert [policy.name for policy in node.policies.all(vhost, operator=True)] == ["every"]
        assert rights(node, "a.b", vhost) == ("^a", ".*", ".*")
    assert node.users.get("tester") is None


def test_a_user_who_exists_keeps_password_and_tags(node: Node) -> None:
    node.users.add("tester", b"", ("administrator",))
    node.add_vhost("qa1")
    assert node.users.find("tester").tags == ("administrator",) and not node.users.find("tester").password_hash
    assert rights(node, "tester", "qa1") == (".*", "^$", ".*")


def test_an_existing_virtual_host_is_left_as_it_is(node: Node) -> None:
    node.limits.set_vhost("/", {"max-queues": 9})
    node.add_vhost("/")
    assert limits_of(node, "/") == {"max-queues": 9}


def test_a_default_that_is_refused_is_reported_and_the_others_are_given(
    conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[tuple[str, str, dict[str, object]]] = []
    monkeypatch.setattr(logs, "report", lambda *line: reported.append(line))
    conf.write_text(CONF + "default_policies.operator.empty.vhost_pattern = ^bad\n")
    node = node_of(load(conf))
    reported.clear()
    node.add_vhost("bad")
    fields = {"vhost": "bad", "name": "empty", "reason": "Validation failed no policy provided"}
    assert reported == [("vhost_default_refused", "warning", fields)]
    assert rights(node, "a.b", "bad") and node.policies.get("bad", "every", operator=True)


@pytest.mark.parametrize(
    "line",
    [
        "default_limits.vhosts.1.max_queues = 0",
        "default_limits.vhosts.1.pattern = (",
        "default_policies.operator.p.expires = 1y",
        "default_policies.operator.p.expires = 1h 30m",
        "default_policies.operator.p.expires = 0s",
        "default_policies.operator.p.expires = 999999999999d",
        "default_policies.operator.p.max_length_bytes = 0",
        "default_policies.operator.p.max_age = 1h",
        "default_users.u.vhost_pattern = [",
        "default_users.u.passwd = x",
        "default_users.password = x",
        f"default_users.{'u' * 256}.password = x",
    ],
)
def test_what_is_wrong_in_the_configuration_is_refused(conf: Path, line: str) -> None:
    conf.write_text(line)
    with pytest.raises(ConfigError, match=r"rabbitmq\.conf:1: "):
        load(conf)


def test_the_printed_configuration_has_them_without_passwords(conf: Path) -> None:
    printed = text_of(load(conf))
    assert "secret" not in printed
    for line in CONF.strip().split("\n"):
        if "password" not in line and "expires" not in line and "1KB" not in line:
            assert line in printed.split("\n")
