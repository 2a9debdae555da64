"""The options of `warren migrate`, which docs/migration.md names."""

import argparse
import re

from tests.support.checkout import ROOT
from warren.plugins.migration.cli import Migrate


def test_the_page_names_the_options_of_the_command() -> None:
    page = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    parser = argparse.ArgumentParser(add_help=False)
    Migrate().add_options(parser)
    there_are = {option for action in parser._actions for option in action.option_strings}
    of_serve = {"--config", "--print-config", "--amqp", "--http", "--cluster-name"}
    named = set(re.findall(r"(?<![-\w])--[a-z]+(?:-[a-z]+)*", page))
    assert there_are - named == set() and named - of_serve <= there_are
