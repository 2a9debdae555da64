"""The options of `warren migrate`, which docs/migration.md names."""

import argparse
import re

import pytest

from tests.support.checkout import ROOT
from warren.broker.ctl.errors import APIError
from warren.plugins.migration.cli import Migrate


@pytest.mark.parametrize(
    ("url", "status", "says"),
    [
        ("nonsense", 64, "--from or --to: not an http:// or https:// URL"),
        ("http://127.0.0.1:1", 69, "usually 15672; start it, or check --from, --to and --data"),
    ],
)
def test_a_broker_that_cannot_be_reached_is_an_error_that_says_what_to_do(
    capsys: pytest.CaptureFixture[str], url: str, status: int, says: str
) -> None:
    parser = argparse.ArgumentParser()
    Migrate().add_options(parser)
    assert Migrate().run(parser.parse_args(["--from", url])) == status
    err = capsys.readouterr().err
    assert err.startswith("warren migrate: ") and says in err and err.count("\n") == 1


URL = "http://u:p@127.0.0.1:1"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--amqp", "x"), "--amqp: not an amqp:// or amqps:// URI"),
        (("--amqp", ""), "--amqp: not an amqp:// or amqps:// URI"),
        (("--amqp", "http://u:secret@old"), "--amqp: not an amqp:// or amqps:// URI"),
        (("--amqp", "amqp://u:secret@"), "--amqp: it names no host"),
        (("--amqp", "amqp://u:sec%ret@old"), "--amqp: not a URI of AMQP: invalid escape ("),
        (("--amqp", "amqp://u:secret@old:99999"), "--amqp: not a URI of AMQP: port out of range ("),
        (("--amqp", "amqp://u:secret@old?heartbeat=x"), "--amqp: not a URI of AMQP: not an integer heartbeat ("),
        (("--amqp", "amqp://" + "h" * 9000), "--amqp: longer than 8192 characters"),
        (
            ("--from-password-file", "/none"),
            "--from-password-file: the URL of --from has a password too: leave one out",
        ),
        (("--to-password-file", "/none"), "--to-password-file: its password is for --to, which is not given"),
        (("--to", URL, "--to-password-file", "/none"), "--to-password-file: the URL of --to has a password too"),
    ],
)
def test_options_are_checked_before_any_broker_is_asked(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    parser = argparse.ArgumentParser()
    Migrate().add_options(parser)
    assert Migrate().run(parser.parse_args(["--from", URL, *words])) == 64
    err = capsys.readouterr().err
    assert err.startswith(f"warren migrate: {says}") and err.count("\n") == 1
    assert "secret" not in err


@pytest.mark.parametrize("refusal", [("not_authorized", "Not_Authorized"), ("not_authorised", "Login failed")])
def test_a_wrong_password_is_no_missing_tag(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, refusal: tuple[str, str]
) -> None:
    def refused(options: argparse.Namespace) -> int:
        raise APIError(401, *refusal)

    monkeypatch.setattr("warren.plugins.migration.command.migrate", refused)
    assert Migrate().run(argparse.Namespace()) == 69
    assert "a broker refuses user or password: check those of --from and --to" in capsys.readouterr().err


def test_a_refusal_has_no_entities_of_html(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(options: argparse.Namespace) -> int:
        raise APIError(400, "bad_request", 'Validation failed\n\n&lt;&lt;"x"&gt;&gt; is wrong')

    monkeypatch.setattr("warren.plugins.migration.command.migrate", refused)
    assert Migrate().run(argparse.Namespace()) == 69
    assert capsys.readouterr().err == 'warren migrate: a broker refuses: Validation failed <<"x">> is wrong\n'


def test_the_page_names_the_options_of_the_command() -> None:
    page = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    parser = argparse.ArgumentParser(add_help=False)
    Migrate().add_options(parser)
    there_are = {option for action in parser._actions for option in action.option_strings}
    of_serve = {"--config", "--print-config", "--amqp", "--http", "--cluster-name"}
    named = set(re.findall(r"(?<![-\w])--[a-z]+(?:-[a-z]+)*", page))
    assert there_are - named == set() and named - of_serve <= there_are


def test_a_password_that_is_missing_is_an_error_with_the_options_of_this_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser = argparse.ArgumentParser()
    Migrate().add_options(parser)
    assert Migrate().run(parser.parse_args(["--from", "http://u@127.0.0.1:1"])) == 64
    assert "--from or --to: the password of its user is missing: give it by --from-password-file or --to-pass" in (
        capsys.readouterr().err
    )
