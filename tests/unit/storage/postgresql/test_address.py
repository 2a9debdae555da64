"""The URL of a store, its password, and what is shown of it."""

from pathlib import Path

import pytest

from warren.broker.storage.errors import StorageFault
from warren.broker.storage.postgresql.address import parse
from warren.broker.storage.postgresql.errors import Refused, Unreachable
from warren.broker.storage.postgresql.session import failed_login


def test_a_url_has_hosts_and_settings_of_its_own() -> None:
    address = parse("postgresql://warren@one:1,two:2/db?sslmode=require&connect_timeout=9")
    for part in ("host=one,two", "port=1,2", "user=warren", "dbname=db", "sslmode=require", "connect_timeout=9"):
        assert part in address.conninfo.split()
    assert "target_session_attrs=read-write" in address.conninfo
    assert address.shown == "postgresql://warren@one,two/db (schema warren)"


def test_the_password_is_that_of_the_file_and_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("it is secret\n")
    address = parse("postgresql://u:other@h/db", str(tmp_path / "password"))
    assert "password='it is secret'" in address.conninfo
    assert "secret" not in address.shown and "other" not in address.shown


@pytest.mark.parametrize(
    ("url", "file", "schema", "says"),
    [
        ("mysql://u@h/db", "", "warren", "storage.url: not of the form"),
        ("postgresql:/u:S3cret@h/db", "", "warren", "storage.url: not of the form"),
        ("postgres:u:S3cret@h/db", "", "warren", "storage.url: not of the form"),
        ("postgresql://u:S3c%zzret@h/db", "", "warren", "storage.url: invalid percent-encoded token"),
        ("postgresql://u:S3cret%00@h/db", "", "warren", "storage.url: forbidden value %00 in percent-encoded value"),
        (
            "postgresql://u:S3cret@[h/db",
            "",
            "warren",
            "storage.url: end of string reached when looking for matching ] in",
        ),
        ("postgresql://u:S3cret@[h]x/db", "", "warren", "storage.url: unexpected character"),
        ("postgresql://u@h/db?S3cret=1&password", "", "warren", "storage.url: "),
        ("postgresql://u@h/db?bogus=1", "", "warren", "storage.url: invalid URI query parameter"),
        ("postgresql://u@h/db", "/nowhere", "warren", "storage.password_file: /nowhere: there is no such file"),
        ("postgresql://u@h/db", "", "", "storage.schema"),
        ("postgresql://u@h/db", "", "x" * 64, "storage.schema"),
    ],
)
def test_what_is_wrong_is_one_line(url: str, file: str, schema: str, says: str) -> None:
    with pytest.raises(StorageFault) as fault:
        parse(url, file, schema)
    assert str(fault.value).startswith(says) and "\n" not in str(fault.value)
    assert "S3c" not in str(fault.value)


@pytest.mark.parametrize(
    ("text", "final"),
    [
        ('FATAL: password authentication failed for user "u"', True),
        ("fe_sendauth: no password supplied", True),
        ("FATAL: the database system is starting up", False),
        ("connection failed: Connection refused", False),
    ],
)
def test_a_login_is_tried_again_unless_that_cannot_help(text: str, final: bool) -> None:
    psycopg = pytest.importorskip("psycopg")
    assert isinstance(failed_login(psycopg.OperationalError(text)), Refused if final else Unreachable)
