"""The defaults, and contradictory values."""

from pathlib import Path

import pytest

from warren.broker.config import Config
from warren.broker.config.config import Management

from .loading import load, refused


def test_without_a_file_the_broker_listens_on_loopback_only() -> None:
    config = load()
    assert config.listeners_tcp == (("127.0.0.1", 5672),)
    assert config.listeners_ssl == ()
    assert config.loopback_users == ("guest",)
    assert config.mechanisms == ("PLAIN", "AMQPLAIN")


def test_the_limits_are_those_of_rabbitmq() -> None:
    config = load()
    assert (config.heartbeat_s, config.frame_max, config.channel_max) == (60, 131_072, 2047)
    assert (config.max_message_size, config.consumer_timeout_ms) == (16_777_216, 1_800_000)
    assert (config.connection_max, config.channel_max_per_node, config.vhost_max) == (None, None, None)
    assert (config.vm_memory_high_watermark, config.disk_free_limit_bytes) == (0.6, 50_000_000)


def test_the_node_is_one_of_this_machine() -> None:
    assert load().node.startswith("warren@")
    assert load(flags={"node": "a@b", "cluster_name": "c"}).cluster_name == "c"


def test_what_is_durable_is_kept_and_synced_unless_told_otherwise() -> None:
    assert (load().data_dir, load().memory, load().sync) == ("./data", False, "fsync")


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        load().node = "other"  # type: ignore[misc]


def test_the_defaults_are_what_empty_files_give(conf: Path, toml: Path) -> None:
    conf.write_text("")
    toml.write_text("")
    assert load(conf) == load(toml) == load() == Config()


def test_anonymous_is_offered_where_it_is_listed_and_has_somebody_to_log_in_as(conf: Path) -> None:
    conf.write_text("auth_mechanisms.1 = ANONYMOUS\nauth_mechanisms.2 = PLAIN")
    assert load(conf).mechanisms == ("ANONYMOUS", "PLAIN")
    conf.write_text(conf.read_text() + "\nanonymous_login_user = none")
    assert load(conf).mechanisms == ("PLAIN",)


def test_a_frame_that_amqp_does_not_allow_is_refused(conf: Path) -> None:
    conf.write_text("frame_max = 4095")
    assert refused(conf).startswith(f"{conf}:1: frame_max: less than 4096")


def test_the_name_of_a_node_stays_as_it_is_given(conf: Path) -> None:
    for given in ("shop", "shop@host"):
        assert load(None, {"node": given}).node == given
    for wrong in ("@", "@host", "shop@", "bad name", "shop@a host"):
        conf.write_text(f"warren.node = {wrong}")
        assert refused(conf) == f"{conf}:1: warren.node: '{wrong}' is not NAME@HOST or NAME"


def test_tls_needs_a_certificate(conf: Path) -> None:
    conf.write_text("listeners.ssl.default = 5671")
    assert refused(conf) == f"{conf}:1: listeners.ssl: needs ssl_options.certfile in the configuration file"
    assert refused(None, {"amqps": ["localhost:1"]}).startswith("command line: --amqps: listeners.ssl: needs")
    for part in ("management", "prometheus"):
        conf.write_text(f"\n{part}.ssl.port = 15671")
        assert refused(conf) == f"{conf}:2: {part}.ssl.port: needs {part}.ssl.certfile"
    conf.write_text("listeners.ssl.default = 5671\nssl_options.certfile = a.pem")
    assert load(conf).listeners_ssl == (("::", 5671),)


def test_what_the_http_api_will_need_is_read_already(conf: Path) -> None:
    conf.write_text(
        "management.tcp.port = 1\nmanagement.ssl.port = 2\nmanagement.ssl.certfile = c.pem\n"
        "management.sample_retention_policies.global.minute = 5\nmanagement.sample_retention_policies.basic.hour = 60\n"
        "management.headers.frame_options = DENY\nprometheus.tcp.port = 3\n"
    )
    config = load(conf)
    api = config.management
    assert (api.tcp.port, api.ssl.port, api.ssl_options.certfile, api.frame_options) == (1, 2, "c.pem", "DENY")
    assert api.sample_retention_policies == {"global.minute": 5, "basic.hour": 60}
    assert (config.prometheus.tcp.port, config.prometheus.path) == (3, "/metrics")
    assert Management().tcp.port == 15672
