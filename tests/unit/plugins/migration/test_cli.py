"""The options of `warren migrate`, which docs/migration.md names."""

import argparse
import re

import pytest

from tests.support.checkout import ROOT
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


def test_the_page_names_the_options_of_the_command() -> None:
    page = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    parser = argparse.ArgumentParser(add_help=False)
    Migrate().add_options(parser)
    there_are = {option for action in parser._actions for option in action.option_strings}
    of_serve = {"--config", "--print-config", "--amqp", "--http", "--cluster-name"}
    named = set(re.findall(r"(?<![-\w])--[a-z]+(?:-[a-z]+)*", page))
    assert there_are - named == set() and named - of_serve <= there_are
