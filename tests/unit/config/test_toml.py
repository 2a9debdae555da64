"""TOML: the same keys, as nested tables."""

from pathlib import Path

import pytest

from .loading import load, refused


def test_keys_are_nested_tables_and_lists_are_their_elements(toml: Path, conf: Path) -> None:
    toml.write_text("""
heartbeat = 5
auth_mechanisms = ["EXTERNAL", "PLAIN"]
vm_memory_high_watermark.relative = 0.5
disk_free_limit.absolute = "1GB"
loopback_users."a.b" = true

[listeners]
tcp.default = 5672
tcp.other = "127.0.0.1:1"

[warren]
sync = "os"
memory = false
""")
    conf.write_text(
        "heartbeat = 5\nauth_mechanisms.1 = EXTERNAL\nauth_mechanisms.2 = PLAIN\nloopback_users.a\\.b = true\n"
        "vm_memory_high_watermark.relative = 0.5\ndisk_free_limit.absolute = 1GB\nlisteners.tcp.default = 5672\n"
        "listeners.tcp.other = 127.0.0.1:1\nwarren.sync = os\n"
    )
    assert load(toml) == load(conf)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("chanel_max = 1", "unknown key chanel_max; did you mean channel_max?"),
        ("[log.console]\nlevel = 'loud'", "log.console.level: 'loud' is not one of"),
        ("heartbeat = 1.5", "heartbeat: '1.5' is not a number"),
        ("heartbeat = -1", "heartbeat: '-1' is not a number"),
        ("heartbeat = 1979-05-27", "heartbeat: a date is no value here"),
        ("warren.node = 'a'\nnode 'b'", "line 2"),
        ("warren.node = ", "Invalid value"),
        ("heartbeat = " + "[" * 3000, "nested too deeply"),
        ("[heartbeat" + ".a" * 3000 + "]\nb = 1", "nested too deeply"),
        ("heartbeat = " + "9" * 5000, "integer"),
        ("heartbeat = 0x" + "f" * 5000, "heartbeat: a whole number has at most 64 bits"),
    ],
)
def test_what_it_may_not_say_is_told_with_file_and_key(toml: Path, text: str, says: str) -> None:
    toml.write_text(text)
    refusal = refused(toml)
    assert refusal.startswith(f"{toml}: ")
    assert says in refusal
