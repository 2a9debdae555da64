"""The user of a new node: its password is configured, or random and printed once."""

import pytest

from warren.broker.config import Config
from warren.broker.core.access.passwords import verify_password
from warren.broker.logs.record import Record
from warren.broker.operator.default_user import default_user

Line = tuple[str, str, dict[str, object]]


def make_user(config: Config) -> tuple[bytes, list[Line]]:
    """Return the password hash of the user and the lines of the log."""
    lines: list[Line] = []
    user = default_user(config, lambda event, level, fields: lines.append((event, level, fields)))
    assert (user.name, user.tags) == (config.default_user, config.default_user_tags)
    return user.password_hash, lines


def test_it_is_guest_unless_something_else_is_configured() -> None:
    password_hash, lines = make_user(Config())
    assert verify_password(password_hash, b"guest") and not lines
    password_hash, lines = make_user(Config(default_pass="s3cret", generate_default_pass=True))
    assert verify_password(password_hash, b"s3cret") and not lines


def test_a_generated_password_is_printed_and_not_logged_and_is_another_each_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = Config(default_user="admin", generate_default_pass=True)
    password_hash, lines = make_user(config)
    ((event, level, fields),) = lines
    assert (event, level, fields["user"]) == ("default_user_generated", "warning", "admin")
    printed = capsys.readouterr().out
    text, _, shown = printed.strip().rpartition(" ")
    assert text == "The new user 'admin' has this password, which is shown only once:" and printed.count("\n") == 1
    assert len(shown) >= 24 and verify_password(password_hash, shown.encode())
    assert shown not in Record(0.0, level, event, fields).plain(lambda _: "now")
    make_user(config)
    assert shown not in capsys.readouterr().out
