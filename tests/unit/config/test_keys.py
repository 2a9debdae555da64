"""Keys: lists and names, other spellings, keys that are known but not followed."""

from dataclasses import replace
from pathlib import Path

import pytest

from warren.broker.config.builder import find
from warren.broker.config.ignored_keys import ALIASES, KEYS_NOT_FOLLOWED, SECTIONS, canonical_path, not_followed
from warren.broker.config.keys import ANY, KEYS
from warren.broker.config.printing import DEFAULTS, text_of, value_of

from .loading import load, refused, sources

STOCK = """
# a file as operators have it
listeners.tcp.1 = 0.0.0.0:5672
listeners.tcp.2 = ::1:5672
listeners.tcp.10 = 10.0.0.1:1
listeners.tcp.other = 10.0.0.2:1
num_acceptors.tcp = 10
heartbeat = 30
heartbeat = 20                    # the last one counts
vm_memory_high_watermark.absolute = 2GiB
disk_free_limit.absolute = 1GB
auth_mechanisms.2 = AMQPLAIN
auth_mechanisms.1 = EXTERNAL
auth_backends.1 = internal
loopback_users.guest = false
loopback_users.a\\.b = true
default_user_tags.monitoring = true
default_user_tags.administrator = false
default_permissions.write = ^a
credential_validator.validation_backend = rabbit_credential_validator_min_password_length
credential_validator.min_length = 12
runtime_parameters.limits.federation-upstream = 5
node_tags.region = eu
default_queue_type = quorum
connection_max = infinity
log.console = true
log.file = false
log.console.level = notice
log.console.formatter = json
cluster_partition_handling = ignore
"""


def test_a_stock_file_is_read(conf: Path) -> None:
    conf.write_text(STOCK)
    given = sources(conf)
    config = given.load()
    assert config.listeners_tcp == (("0.0.0.0", 5672), ("::1", 5672), ("10.0.0.1", 1), ("10.0.0.2", 1))
    assert (config.heartbeat_s, config.auth_mechanisms) == (20, ("EXTERNAL", "AMQPLAIN"))
    assert (config.loopback_users, config.default_user_tags) == (("a.b",), ("monitoring",))
    assert (config.vm_memory_high_watermark_bytes, config.disk_free_limit_bytes) == (2 << 30, 10**9)
    assert (config.default_permissions.write, config.default_permissions.read) == ("^a", ".*")
    assert (config.credential_validator, config.password_min_length) == ("min_password_length", 12)
    assert (config.runtime_parameter_limits, config.node_tags) == ({"federation-upstream": 5}, {"region": "eu"})
    assert (config.default_queue_type, config.log.level, config.log.form) == ("quorum", "warning", "json")
    assert [warning.rpartition(": ")[0] for warning in given.warnings] == [f"{conf}:7: num_acceptors.tcp"]


@pytest.mark.parametrize("key", ["listeners.tcp", "listeners.ssl", "loopback_users"])
def test_none_empties_a_list_whatever_else_is_said_of_it(conf: Path, key: str) -> None:
    element = {"loopback_users": "guest = true"}.get(key, "default = 1")
    conf.write_text(f"{key} = none\n{key}.{element}")
    assert getattr(load(conf), key.replace(".", "_")) == ()


@pytest.mark.parametrize(
    ("old", "field", "value"),
    [
        ("max_connections = 5", "connection_max", 5),
        ("management.load_definitions = a.json", "load_definitions", "a.json"),
        ("definitions.local.path = a.json", "load_definitions", "a.json"),
        ("log.default.level = error", "log.level", "error"),
        ("log.level = none", "log.level", "critical"),
        *(
            (f"log.{output}.level = {level}", f"log.{field}", "critical")
            for output, field in (("console", "level"), ("file", "file_level"), ("connection", "levels.connection"))
            for level in ("alert", "emergency")
        ),
        ("ssl_cert_login_from = subject_alt_name", "ssl_cert_login_from", "subject_alternative_name"),
        ("definitions.import_backend = local", "load_definitions", ""),
        ("definitions.import_backend = rabbitmq_definitions_import_local_filesystem", "load_definitions", ""),
        ("handshake_timeout = infinity", "handshake_timeout_ms", 86_400_000),
        ("frame_max = 128KB", "frame_max", 131_072),
        ("initial_frame_max = 1MB", "initial_frame_max", 1 << 20),
        ("default_queue_type = rabbit_quorum_queue", "default_queue_type", "quorum"),
        ("management.listener.port = 5", "management.tcp.port", 5),
        ("management.listener.server.idle_timeout = 5", "management.tcp.idle_timeout", 5),
        ("management.listener.ssl_opts.keyfile = k", "management.ssl_options.keyfile", "k"),
        ("management.cors.allow_origins = *", "management.cors_allow_origins", ("*",)),
    ],
)
def test_other_spellings_are_taken(conf: Path, old: str, field: str, value: object) -> None:
    conf.write_text(old)
    found: object = load(conf)
    for part in field.split("."):
        found = getattr(found, part)
    assert found == value


@pytest.mark.parametrize(
    "key",
    [
        *("cluster_formation.peer_discovery_backend", "mqtt.listeners.tcp.default", "net_ticktime", "log.user.file"),
        *("ssl_options.depth", "auth_ldap.servers.1", "ssl_options.cacerts.1"),
        "default_policies.operator.a.classic_queues.ha_mode",
        *("log.journald", "management.listener.ssl", "log.upgrade.level", "advanced.config"),
    ],
)
def test_what_rabbitmq_knows_and_is_not_followed_gives_one_warning(conf: Path, key: str) -> None:
    conf.write_text(f"{key} = 1")
    given = sources(conf)
    given.load()
    assert given.warnings == [f"{conf}:1: {key}: Warren does not follow this key"]


@pytest.mark.parametrize("line", ["log.console = true", "proxy_protocol = false", "ssl_options.crl_check = false"])
def test_there_is_no_warning_for_what_is_so_anyway(conf: Path, line: str) -> None:
    conf.write_text(line)
    given = sources(conf)
    given.load()
    assert given.warnings == []


def is_accepted(key: str, free: str) -> bool:
    """Whether a file with this key of RabbitMQ starts; `free` takes the place of free elements."""
    path = canonical_path(tuple(free if element.startswith("$") else element for element in key.split(".")))
    return find(path)[0] is not None or not_followed(path, "") is not None


def test_no_key_of_rabbitmq_stops_the_start() -> None:
    """The keys of all schemas in RabbitMQ 4.0.5's distribution; a free element is a number or a name."""
    keys = (Path(__file__).parent / "rabbitmq_keys.txt").read_text().split()
    assert len(keys) > 900
    assert [key for key in keys if not (is_accepted(key, "1") or is_accepted(key, "name"))] == []


@pytest.mark.parametrize(
    ("text", "port", "ip"), [("none", None, ""), ("127.0.0.3:15", 15, "127.0.0.3"), ("[::1]:16", 16, "::1")]
)
def test_the_listener_of_metrics_takes_the_place_of_address_and_port(
    conf: Path, text: str, port: int | None, ip: str
) -> None:
    conf.write_text(f"prometheus.tcp.port = 1\nprometheus.tcp.compress = false\nprometheus.tcp.listener = {text}\n")
    listener = load(conf).prometheus.tcp_listener
    assert (listener.port, listener.ip, listener.compress) == (port, ip, False)


def test_each_key_has_a_field_with_a_default_and_is_found_by_its_name() -> None:
    for key in KEYS:
        assert find(tuple("1" if element == ANY else element for element in key.path))[0] is key
        if key.field:
            value_of(key, DEFAULTS)


def test_nothing_is_both_followed_and_not() -> None:
    keys = {".".join(key.path) for key in KEYS}
    assert not keys & set(KEYS_NOT_FOLLOWED)
    assert not keys & set(ALIASES)
    assert not [key for key in keys if any(key == section or key.startswith(section + ".") for section in SECTIONS)]


def test_what_is_printed_reads_back_as_the_same_but_for_secrets(conf: Path, tmp_path: Path) -> None:
    conf.write_text(STOCK + "default_permissions.read = ''\ndefault_pass = secret\nlisteners.ssl = none\n")
    config = load(conf)
    printed = tmp_path / "printed.conf"
    printed.write_text(text_of(config))
    assert "secret" not in text_of(config)
    assert text_of(load(printed)) == text_of(replace(config, default_pass=""))
    assert load(printed).default_permissions == config.default_permissions
    assert load(printed).listeners_tcp == config.listeners_tcp


@pytest.mark.parametrize(
    "line",
    [
        "credential_validator.regexp = (",
        "default_permissions.configure = (",
        "default_permissions.write = [",
        "default_permissions.read = *",
        "tcp_listen_options.backlog = 99999999999",
        "tcp_listen_options.sndbuf = 4000000000",
        "tcp_listen_options.recbuf = 4GiB",
        "management.sample_retention_policies.global.minute = 0",
    ],
)
def test_a_value_that_no_part_of_the_broker_could_use_is_refused_with_its_line(conf: Path, line: str) -> None:
    conf.write_text(line)
    assert f"{conf}:1: {line.split(' = ')[0]}: " in refused(conf)


@pytest.mark.parametrize("given", ["rabbit", "/rabbit"])
def test_a_path_prefix_begins_with_a_slash_whether_it_is_given_or_not(conf: Path, given: str) -> None:
    conf.write_text(f"management.path_prefix = {given}")
    assert load(conf).management.path_prefix == "/rabbit"
