"""The configuration: defaults, what the file and the command line may say, and the one line for what they may not."""

from pathlib import Path

import pytest

from broker.config import Config, ConfigError, load, parse_address


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "warren.toml"


def message(path: Path | None = None, **flags: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(str(path) if path else None, flags)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_a_file_the_broker_listens_on_loopback_only() -> None:
    config = load()
    assert config.amqp_addresses == [("127.0.0.1", 5672)]
    assert config.loopback_users == ("guest",)
    assert "ANONYMOUS" not in config.mechanisms


def test_the_cluster_is_named_after_the_node_until_it_has_a_name() -> None:
    assert load().node.startswith("warren@")
    assert load().cluster_name == load().node
    assert load(flags={"node": "a@b"}).cluster_name == "a@b"
    assert load(flags={"node": "a@b", "cluster_name": "c"}).cluster_name == "c"


def test_the_file_changes_a_default_and_the_command_line_changes_the_file(file: Path) -> None:
    file.write_text('amqp = ["0.0.0.0:1", "[::1]:0"]\nheartbeat_s = 5\nnode = "file@host"\n')
    config = load(str(file), {"node": "flag@host"})
    assert config.amqp_addresses == [("0.0.0.0", 1), ("::1", 0)]
    assert config.heartbeat_s == 5
    assert config.node == config.cluster_name == "flag@host"


def test_what_is_durable_is_kept_and_synced_unless_told_otherwise() -> None:
    assert (load().data_dir, load().memory, load().sync) == ("./data", False, "fsync")


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        load().node = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("chanel_max = 1", "unknown field `chanel_max`"),
        ("channel_max = '1'", "channel_max: "),
        ("channel_max = 65536", "channel_max: "),
        ("channel_max = -1", "channel_max: "),
        ("frame_max = 4095", "frame_max: "),
        ("handshake_timeout_s = 0", "handshake_timeout_s: "),
        ("max_message_size = 536870913", "max_message_size: "),
        ("mechanisms = ['PLAIN', 'GSSAPI']", "mechanisms[1]: "),
        ("mechanisms = ['ANONYMOUS']", "mechanisms: ANONYMOUS needs"),
        ("log_level = 'loud'", "log_level: "),
        ("sync = 'never'", "sync: "),
        ("data_dir = ''", "data_dir: "),
        ("amqp = []", "amqp: "),
        ("amqp = ['localhost']", "amqp: 'localhost' is not HOST:PORT"),
        ("node = 'a'\nnode 'b'", "line 2"),
        ("node = ", "Invalid value"),
    ],
)
def test_what_the_file_may_not_say_is_told_in_one_line_with_file_and_key(file: Path, text: str, says: str) -> None:
    file.write_text(text)
    told = message(file)
    assert told.startswith(f"{file}: ")
    assert says in told


def test_a_file_that_is_not_utf8_is_told_in_one_line(file: Path) -> None:
    file.write_bytes(b'node = "\xff"')
    assert message(file).startswith(f"{file}: ")


def test_a_file_that_cannot_be_read_is_told_in_one_line(file: Path) -> None:
    assert message(file) == f"{file}: No such file or directory"
    assert message(file.parent) == f"{file.parent}: Is a directory"


def test_an_error_of_the_command_line_is_not_blamed_on_the_file(file: Path) -> None:
    file.write_text("heartbeat_s = 5")
    assert message(file, log_level="loud").startswith("command line: log_level: ")


def test_the_anonymous_login_needs_an_account(file: Path) -> None:
    file.write_text("mechanisms = ['ANONYMOUS']\nanonymous_login_user = 'a'\nanonymous_login_pass = 'b'")
    assert load(str(file)).mechanisms == ("ANONYMOUS",)


@pytest.mark.parametrize(
    "text", ["", "5672", ":5672", "::1:5672", "host:", "host:-1", "host:65536", "host:x", "host:²"]
)
def test_an_address_without_host_or_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|no port"):
        parse_address(text)


def test_the_defaults_are_what_an_empty_file_gives(file: Path) -> None:
    file.write_text("")
    assert load(str(file)) == load() == Config()
