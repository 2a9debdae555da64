"""The precedence of option, environment, conf.d, file and default; and reloads."""

import re
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from warren.broker.config import ConfigError, parse_address
from warren.broker.config.config import Log, LogLevels

from .loading import load, refused, sources


def test_an_option_wins_over_the_environment_and_that_over_conf_d_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rabbitmq.conf"
    file.write_text("default_user = file\ndefault_vhost = file\nheartbeat = 1\nchannel_max = 1\nwarren.node = file@h\n")
    folder = tmp_path / "conf.d"
    folder.mkdir()
    (folder / "10-first.conf").write_text("heartbeat = 2\nchannel_max = 2\ndefault_vhost = first\n")
    (folder / "20-second.conf").write_text("heartbeat = 3\nwarren.node = second@h\n")
    (folder / "30-third.txt").write_text("nonsense")
    given = sources(file, {"node": "option@h"}, {"RABBITMQ_DEFAULT_USER": "variable", "RABBITMQ_NODENAME": "v@h"})
    config = given.load()
    assert (config.default_user, config.default_vhost, config.node) == ("variable", "first", "option@h")
    assert (config.heartbeat_s, config.channel_max) == (3, 2)
    assert given.files == [str(file), str(folder / "10-first.conf"), str(folder / "20-second.conf")]


def test_a_folder_conf_d_counts_beside_a_file_of_the_stock_name_only(tmp_path: Path, conf: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "a.conf").write_text("heartbeat = 3")
    conf.write_text("")
    assert load(conf).heartbeat_s == 60
    for folder in (tmp_path / "conf.d", tmp_path / "conf.d" / "*.conf"):
        assert load(conf, environment={"RABBITMQ_CONFIG_FILES": str(folder)}).heartbeat_s == 3
    assert load(environment={"RABBITMQ_CONFIG_FILES": str(tmp_path / "conf.d")}).heartbeat_s == 3


def test_an_error_in_conf_d_is_told_with_its_file(tmp_path: Path, conf: Path) -> None:
    conf.write_text("")
    (tmp_path / "extra.conf").write_text("\nbogus = 1")
    refusal = refused(conf, environment={"RABBITMQ_CONFIG_FILES": str(tmp_path / "extra.conf")})
    assert refusal.startswith(f"{tmp_path}/extra.conf:2: unknown key bogus")


def test_the_environment_may_name_the_file_without_its_suffix_and_the_option_wins(conf: Path, toml: Path) -> None:
    conf.write_text("heartbeat = 1")
    toml.write_text("heartbeat = 2")
    assert load(environment={"RABBITMQ_CONFIG_FILE": str(conf.with_suffix(""))}).heartbeat_s == 1
    assert load(toml, environment={"RABBITMQ_CONFIG_FILE": str(conf)}).heartbeat_s == 2


def test_listeners_of_the_command_line_and_of_the_environment_replace_those_of_files(conf: Path) -> None:
    conf.write_text("listeners.tcp.default = 1\nlisteners.tcp.other = 2")
    assert load(conf, environment={"RABBITMQ_NODE_PORT": "3"}).listeners_tcp == (("::", 3),)
    assert load(conf, {"amqp": ["[::1]:0", "h:4"]}).listeners_tcp == (("::1", 0), ("h", 4))
    conf.write_text("listeners.tcp = none")
    assert load(conf, {"amqp": ["h:4"]}).listeners_tcp == (("h", 4),)


def test_an_error_of_the_command_line_is_not_blamed_on_the_file(conf: Path) -> None:
    conf.write_text("heartbeat = 5")
    assert refused(conf, {"log_level": "loud"}).startswith("command line: --log-level: ")
    assert refused(conf, {"amqp": ["localhost"]}) == "command line: --amqp: 'localhost' is neither PORT nor HOST:PORT"
    assert refused(conf, {"metrics": "65536"}) == "command line: --metrics: '65536' is not a port between 0 and 65535"
    assert refused(conf, {"data_dir": ""}) == "command line: --data: warren.data_dir: is empty"


def test_the_options_of_serve_are_keys(conf: Path) -> None:
    conf.write_text("warren.memory = true\nssl_options.certfile = c.pem")
    flags = {"data_dir": "d", "memory": False, "sync": "os", "log_level": "error", "amqps": ["h:1"]}
    config = load(conf, flags)
    assert (config.data_dir, config.memory, config.sync, config.log.level) == ("d", False, "os", "error")
    assert config.listeners_ssl == (("h", 1),)


def test_an_option_with_a_port_alone_means_the_default_address(conf: Path) -> None:
    conf.write_text("listeners.tcp.1 = 10.0.0.1:1\nprometheus.tcp.listener = none\nmanagement.tcp.ip = 10.0.0.2")
    flags = {"amqp": ["5673"], "http": "15673", "metrics": "15693"}
    for environment, host in (({}, "127.0.0.1"), ({"RABBITMQ_NODE_IP_ADDRESS": "auto"}, "::")):
        config = load(conf, flags, environment)
        http, metrics = config.management.tcp, config.prometheus.tcp_listener
        assert config.listeners_tcp == ((host, 5673),)
        assert [(one.ip, one.port) for one in (http, metrics)] == [(host, 15673), (host, 15693)]
    metrics = load(conf, {"metrics": "[::1]:0"}).prometheus.tcp_listener
    assert (metrics.ip, metrics.port) == ("::1", 0)


@pytest.mark.parametrize(
    ("environment", "field", "value"),
    [
        ({"RABBITMQ_DEFAULT_PASS": "p"}, "default_pass", "p"),
        ({"RABBITMQ_DEFAULT_VHOST": "v"}, "default_vhost", "v"),
        ({"RABBITMQ_DEFAULT_USER": ""}, "default_user", "guest"),
        ({"RABBITMQ_NODENAME": "a@b"}, "node", "a@b"),
        ({"RABBITMQ_NODE_IP_ADDRESS": "10.0.0.1"}, "listeners_tcp", (("10.0.0.1", 5672),)),
        ({"RABBITMQ_NODE_IP_ADDRESS": "::1", "RABBITMQ_NODE_PORT": "1"}, "listeners_tcp", (("::1", 1),)),
        ({"RABBITMQ_NODE_IP_ADDRESS": "auto"}, "listeners_tcp", (("::", 5672),)),
        ({"RABBITMQ_MNESIA_DIR": "/m", "RABBITMQ_MNESIA_BASE": "/b"}, "data_dir", "/m"),
        ({"RABBITMQ_MNESIA_BASE": "/b", "RABBITMQ_NODENAME": "a@b"}, "data_dir", "/b/a@b"),
        ({"RABBITMQ_LOG": "debug"}, "log", Log(level="debug")),
        ({"RABBITMQ_LOG": "connection=debug,+json"}, "log", Log(levels=LogLevels(connection="debug"), form="json")),
        ({"RABBITMQ_LOG": "-json,+color"}, "log", Log(form="human")),
        ({"RABBITMQ_LOGS": "-"}, "log", Log(file="")),
        ({"RABBITMQ_LOGS": "/var/log/x"}, "log", Log(file="/var/log/x")),
    ],
)
def test_rabbitmqs_variables_are_read(environment: dict[str, str], field: str, value: object) -> None:
    assert getattr(load(environment=environment), field) == value


def test_the_address_auto_is_every_interface_unless_files_name_another(conf: Path) -> None:
    auto = {"RABBITMQ_NODE_IP_ADDRESS": "auto"}
    conf.write_text("heartbeat = 5")
    assert load(conf, environment=auto).listeners_tcp == (("::", 5672),)
    assert load(conf, environment=auto | {"RABBITMQ_NODE_PORT": "1"}).listeners_tcp == (("::", 1),)
    conf.write_text("listeners.tcp.1 = 10.0.0.1:5673")
    assert load(conf, environment=auto).listeners_tcp == (("10.0.0.1", 5673),)
    conf.write_text("listeners.tcp = none")
    assert load(conf, environment=auto).listeners_tcp == ()


def test_a_node_named_without_a_host_is_one_of_this_machine() -> None:
    name, _, host = load(environment={"RABBITMQ_NODENAME": "rabbit"}).node.partition("@")
    assert name == "rabbit" and host == load().node.partition("@")[2]


def test_a_secret_may_be_in_a_file_that_a_variable_names(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret \n")
    variable = {"RABBITMQ_DEFAULT_PASS_FILE": str(secret)}
    assert load(environment=variable).default_pass == "s3cret "
    both = variable | {"RABBITMQ_DEFAULT_PASS": "other"}
    assert refused(environment=both).startswith("environment RABBITMQ_DEFAULT_PASS: both")
    missing = {"RABBITMQ_DEFAULT_USER_FILE": str(tmp_path / "none")}
    assert refused(environment=missing).startswith("environment RABBITMQ_DEFAULT_USER_FILE: ")


def test_variables_without_effect_are_named_in_one_warning() -> None:
    followed = {"RABBITMQ_NODENAME": "a@b", "RABBITMQ_DEFAULT_USER": "alice", "RABBITMQ_USE_LONGNAME": ""}
    links = {"RABBITMQ_SERVICE_HOST": "10.0.0.1", "RABBITMQ_PORT": "tcp://10.0.0.1", "RABBITMQ_PORT_5672_TCP_ADDR": "1"}
    others = {"RABBITMQ_ERLANG_COOKIE": "secret", "RABBITMQ_DEFAULT_PASSWORD": "misspelt"}
    given = sources(environment=followed | links)
    given.load()
    assert given.warnings == []
    given = sources(environment=followed | links | others)
    given.load()
    assert given.warnings == ["environment: RABBITMQ_DEFAULT_PASSWORD, RABBITMQ_ERLANG_COOKIE: ignored"]


ADVANCED = """[{rabbit, [{consumer_timeout, undefined}, {'tcp_listeners', [5672]}, % {heartbeat, 5}
  {ssl_options, [{verify, verify_peer}]}]}, {kernel, [{net_ticktime, 60}]}]."""


@pytest.mark.parametrize(
    ("text", "such"),
    [
        (ADVANCED.encode(), ", such as consumer_timeout, listeners.tcp.default, ssl_options"),
        (b"[{rabbitmq_shovel, [{shovels, []}]}].", ""),
        (b"\xff", ""),
        (b"%% nothing but {heartbeat, 5}\n[\n].\n", None),
        (b"", None),
    ],
)
def test_an_advanced_config_beside_rabbitmq_conf_is_named_with_what_to_do(
    tmp_path: Path, text: bytes, such: str | None
) -> None:
    file, advanced = tmp_path / "rabbitmq.conf", tmp_path / "advanced.config"
    file.write_text("")
    advanced.write_bytes(text)
    advice = f"write its settings to rabbitmq.conf{such} (docs/migration.md has a table)"
    warnings = [] if such is None else [f"{advanced}: Warren reads no Erlang terms: {advice}"]
    given = sources(file)
    given.load()
    assert given.warnings == warnings
    given = sources(environment={"RABBITMQ_ADVANCED_CONFIG_FILE": str(advanced.with_suffix(""))})
    given.load()
    assert given.warnings == ["environment: RABBITMQ_ADVANCED_CONFIG_FILE: ignored", *warnings]


def test_an_advanced_config_is_not_looked_for_beside_a_file_of_another_name(tmp_path: Path, conf: Path) -> None:
    conf.write_text("")
    (tmp_path / "advanced.config").write_text(ADVANCED)
    given = sources(conf, environment={"RABBITMQ_ADVANCED_CONFIG_FILE": str(tmp_path / "none")})
    given.load()
    assert given.warnings == ["environment: RABBITMQ_ADVANCED_CONFIG_FILE: ignored"]


def test_what_the_table_of_advanced_config_names_are_keys_here(tmp_path: Path, conf: Path) -> None:
    document = (ROOT / "docs/migration.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\{rabbit.*)` \| `(.* = .*)` \|$", document, re.MULTILINE)
    assert len(rows) == 13
    conf.write_text("\n".join(line for _, line in rows))
    given = sources(conf)
    assert given.load().consumer_timeout_ms is None and given.warnings == []
    (tmp_path / "advanced.config").write_text(", ".join(terms for terms, _ in rows))
    given = sources(environment={"RABBITMQ_ADVANCED_CONFIG_FILE": str(tmp_path / "advanced.config")})
    given.load()
    assert ", such as consumer_timeout, default_consumer_prefetch, listeners.tcp.default, " in given.warnings[1]


def test_an_error_of_a_variable_names_it() -> None:
    assert refused(environment={"RABBITMQ_NODE_PORT": "x"}).startswith("environment RABBITMQ_NODE_PORT: listeners.tcp")
    assert refused(environment={"RABBITMQ_LOG": "loud"}).startswith("environment RABBITMQ_LOG: log.console.level: ")


def test_what_can_change_while_the_broker_runs_is_read_again_and_options_still_win(conf: Path) -> None:
    conf.write_text("log.console.level = info\nheartbeat = 1")
    given, with_option = sources(conf), sources(conf, {"log_level": "debug"})
    given.load()
    conf.write_text("log.console.level = error\nheartbeat = 2")
    assert given.load().log == Log(level="error")
    assert with_option.load().log.level == "debug"
    conf.write_text("bogus")
    with pytest.raises(ConfigError):
        given.load()


@pytest.mark.parametrize("text", ["", ":5672", "::1:5672", "host:", "host:-1", "host:65536", "host:x", "host:²"])
def test_an_address_without_host_or_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|not a port"):
        parse_address(text, "127.0.0.1")
