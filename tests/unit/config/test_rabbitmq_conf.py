"""rabbitmq.conf: its grammar, its types of values, and the line of an error."""

from pathlib import Path

import pytest

from warren.broker.config import ConfigError
from warren.broker.config.rabbitmq_conf import parse
from warren.broker.config.setting import Setting

from .loading import load, refused

ENVIRONMENT = {"PASSWORD": "a#b '", "EMPTY": ""}


def said(text: str) -> list[tuple[str, str, str]]:
    def of(setting: Setting) -> tuple[str, str, str]:
        return "/".join(setting.path), setting.text, setting.origin

    return [of(setting) for setting in parse(text, "f", ENVIRONMENT)]


@pytest.mark.parametrize(
    ("line", "path", "value"),
    [
        ("a.b = 1", "a/b", "1"),
        ("  a.b=two words \t", "a/b", "two words"),
        ("a.b = 1 # said", "a/b", "1"),
        ("a.b = x#y", "a/b", "x"),
        ("a = b = c", "a", "b = c"),
        ("a = it's", "a", "it's"),
        ("a = 'pa#ss '", "a", "pa#ss "),
        ("a = ''", "a", ""),
        ("a = 'it's'", "a", "it's"),
        (r"loopback_users.a\.b = true", "loopback_users/a.b", "true"),
        ("a-b.C_1 = x", "a-b/C_1", "x"),
        ("a = x$(PASSWORD)y", "a", "xa#b 'y"),
        ("a = '$(EMPTY)'", "a", ""),
        ("a = 5 \r", "a", "5"),
    ],
)
def test_a_line_is_a_key_and_a_value(line: str, path: str, value: str) -> None:
    assert said(line) == [(path, value, "f:1")]


def test_comments_and_empty_lines_say_nothing_but_count() -> None:
    assert said("# a = $(NOBODY)\n\n  %% b = 2\n\t# c\nd = 4") == [("d", "4", "f:5")]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("a", "f:1: 'a' is not KEY = VALUE"),
        ("[{rabbit, []}].", "f:1: '[{rabbit, []}].' is not KEY = VALUE: Erlang terms are not read"),
        ("a =", "f:1: a: has no value"),
        ("a = # none", "f:1: a: has no value"),
        ("= 1", "is not KEY = VALUE"),
        ("a b = 1", "is not KEY = VALUE"),
        ("a..b = 1", "is not KEY = VALUE"),
        (".a = 1", "is not KEY = VALUE"),
        ("a = 'b", "a value in quotes ends with its quote"),
        ("a = 'b' # said", "a value in quotes ends with its quote, and no comment follows"),
        ("a = '", "a value in quotes ends with its quote"),
        ("a.b = $(NOBODY)", "f:1: a.b: the environment has no NOBODY"),
    ],
)
def test_what_is_no_line_is_told_with_its_number(line: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        said(line)
    assert str(caught.value).startswith("f:1: ")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("12", 12), ("12B", 12), ("2k", 2048), ("2K", 2048), ("2kB", 2000), ("2KB", 2000), ("2KiB", 2048)),
        *(("3m", 3 << 20), ("3MB", 3_000_000), ("1G", 1 << 30), ("1gib", 1 << 30), ("1TB", 10**12)),
    ],
)
def test_a_size_may_have_a_unit(conf: Path, text: str, size: int) -> None:
    conf.write_text(f"disk_free_limit.absolute = {text}")
    assert load(conf).disk_free_limit_bytes == size


@pytest.mark.parametrize(
    ("listener", "address"),
    [("5672", ("::", 5672)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("::1:5672", ("::1", 5672)), ("[::1]:1", ("::1", 1))],
)
def test_a_listener_is_a_port_of_every_interface_or_of_one(conf: Path, listener: str, address: tuple[str, int]) -> None:
    conf.write_text(f"listeners.tcp.default = {listener}")
    assert load(conf).listeners_tcp == (address,)


def test_an_element_with_thousands_of_digits_is_a_name(conf: Path) -> None:
    conf.write_text(f"listeners.tcp.{'9' * 5000} = 5673\nlisteners.tcp.2 = 5672")
    assert [port for _, port in load(conf).listeners_tcp] == [5672, 5673]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("chanel_max = 1", "unknown key chanel_max; did you mean channel_max?"),
        ("nonsense = 1", "unknown key nonsense"),
        ("listeners.tcp.a.b = 1", "unknown key listeners.tcp.a.b"),
        ("management.tcp.prot = 1", "unknown key management.tcp.prot; did you mean management.tcp.port?"),
        ("listners.tcp.default = 1", "listners.tcp.default; did you mean listeners.tcp.default?"),
        (r"loopback_user.a\.b = true", r"loopback_user.a\.b; did you mean loopback_users.a\.b?"),
        ("disk_free_limit = 1GB", "disk_free_limit; did you mean disk_free_limit.absolute?"),
        ("vm_memory_high_watermark = 0.4", "; did you mean vm_memory_high_watermark.relative?"),
        ("node = a@b", "unknown key node; did you mean warren.node?"),
        ("management.listener.prot = 1", "management.listener.prot; did you mean management.tcp.port?"),
        ("cluster_formaton.node_type = disc", "; did you mean cluster_formation.node_type?"),
        ("net_tiktime = 60", "; did you mean net_ticktime?"),
        (
            "management.sample_retention_policy.global = 1",
            "; did you mean management.sample_retention_policies.global.NAME?",
        ),
        ("channel_max = many", "channel_max: 'many' is not a number from 0 to 65535"),
        ("channel_max = 65536", "channel_max: '65536' is not a number from 0 to 65535"),
        ("channel_max = -1", "channel_max: '-1' is not"),
        ("channel_max = ²", "channel_max: '²' is not"),
        (
            "connection_max = unlimited",
            "connection_max: 'unlimited' is not a number from 0 to 9223372036854775807, or infinity",
        ),
        ("handshake_timeout = 0", "handshake_timeout: '0' is not"),
        ("max_message_size = 536870913", "max_message_size: '536870913' is not a size"),
        ("disk_free_limit.absolute = 1XB", "disk_free_limit.absolute: '1XB' is not a size"),
        ("disk_free_limit.absolute = 1 MB", "disk_free_limit.absolute: '1 MB' is not a size"),
        ("vm_memory_high_watermark.relative = half", "'half' is not a number from 0"),
        ("tcp_listen_options.nodelay = yes", "'yes' is neither true nor false"),
        ("auth_mechanisms.1 = GSSAPI", "auth_mechanisms.1: 'GSSAPI' is not one of PLAIN, "),
        ("auth_backends.1 = ldap", "auth_backends.1: 'ldap' is not one of internal"),
        ("ssl_options.versions.1 = tlsv1.1", "'tlsv1.1' is not one of tlsv1.3, tlsv1.2"),
        ("log.console.level = loud", "log.console.level: 'loud' is not one of debug, "),
        ("warren.sync = never", "warren.sync: 'never' is not one of fsync, os"),
        ("warren.data_dir = ''", "warren.data_dir: is empty"),
        ("listeners.tcp.default = localhost", "'localhost' is not PORT or ADDRESS:PORT"),
        ("listeners.tcp.default = 127.0.0.1:65536", "'65536' is not a port"),
        ("listeners.tcp = 5672", "'5672' is not one of none; did you mean listeners.tcp.default?"),
        ("loopback_users = guest", "'guest' is not one of none; did you mean loopback_users.guest?"),
        ("default_queue_type = stream", "'stream' is not one of classic"),
        ("default_pass = encrypted:abc", "default_pass: an encrypted value cannot be read here"),
    ],
)
def test_what_a_file_may_not_say_is_told_with_file_line_and_key(conf: Path, text: str, says: str) -> None:
    conf.write_text(f"# the second line\n{text}\n")
    refusal = refused(conf)
    assert refusal.startswith(f"{conf}:2: ")
    assert says in refusal


@pytest.mark.parametrize(
    "key",
    # the last ones have names like those of keys with a free element, or more of a key than can be compared in time
    ["nonsense", "port", "tls.cert", "amqp.port", "users.guest", "averylongnameindeed.guest", "x." * 99 + "port",
     "listeners.tc" + "p" * 500_000],
)  # fmt: skip
def test_a_key_like_no_other_has_no_suggestion(conf: Path, key: str) -> None:
    conf.write_text(f"{key} = 1")
    assert "did you mean" not in refused(conf)


def test_a_file_that_is_not_utf8_or_cannot_be_read_is_told_in_one_line(conf: Path) -> None:
    assert refused(conf) == f"{conf}: there is no such file or folder: check the path"
    assert refused(conf.parent) == f"{conf.parent}: it is a folder, and a file is needed: choose another path"
    conf.write_bytes(b"node = \xff")
    assert refused(conf).startswith(f"{conf}: not UTF-8")
