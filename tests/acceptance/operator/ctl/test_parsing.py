"""Command lines of rabbitmqctl, parsed as rabbitmqctl does."""

import argparse
import shlex

import pytest

from warren.broker import cli
from warren.broker.ctl.command_line import GLOBAL_SHORT, BadCommandLine, help_of, help_of_all, parse
from warren.broker.ctl.commands import COMMANDS, GROUPS
from warren.broker.ctl.missing_commands import OF_WARREN
from warren.broker.plugin_host.loading import load_commands

POLICY = ["exchange-federation", r"^federated\.", '{"federation-upstream-set":"all"}']


def read(line: str) -> tuple[str, list[str], dict[str, str | bool]]:
    call = parse(shlex.split(line))
    return call.command, call.arguments, call.options


@pytest.mark.parametrize(
    "line",
    [
        r"""set_policy exchange-federation "^federated\." '{"federation-upstream-set":"all"}' """
        "--priority 10 --apply-to exchanges",
        r"""set_policy --priority 10 --apply-to exchanges exchange-federation "^federated\." """
        """'{"federation-upstream-set":"all"}'""",
        r"""--priority 10 set_policy exchange-federation --apply-to=exchanges "^federated\." """
        """'{"federation-upstream-set":"all"}'""",
    ],
)
def test_options_may_come_before_between_and_after_arguments(line: str) -> None:
    assert read(line) == ("set_policy", POLICY, {"priority": "10", "apply-to": "exchanges"})


@pytest.mark.parametrize("name", ["warrenctl", "rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-plugins"])
def test_usage_and_errors_have_the_name_by_which_it_was_called(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("sys.argv", [f"/usr/local/bin/{name}", "nonsense"])
    with pytest.raises(BadCommandLine, match=rf"(?s)Command 'nonsense' not found.*{name} .--node"):
        parse(["nonsense"])
    assert f"\n{name} " in help_of(COMMANDS["list"]) and f"'{name} help" in help_of_all()


def test_rabbitmq_plugins_has_the_commands_for_plugins_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read("list")[0] == "list" and read("ping")[0] == "ping"
    monkeypatch.setattr("sys.argv", ["rabbitmq-plugins"])
    for line in ("list -e", "enable rabbitmq_federation", "is_enabled rabbitmq_federation", "version"):
        assert read(line)[0] == line.split()[0]
    with pytest.raises(BadCommandLine, match="'list_users' not found"):
        parse(["list_users"])
    assert "list_users" not in help_of_all()


def test_two_dashes_end_the_options() -> None:
    assert read("add_user -- -q --password") == ("add_user", ["-q", "--password"], {})


def test_short_options_are_the_long_ones() -> None:
    options = {"vhost": "v", "node": "a@b", "quiet": True, "silent": True, "timeout": "5"}
    assert read("-p v -n a@b list_queues -q -s -t 5 name") == ("list_queues", ["name"], options)
    assert read("delete_queue -e -u q")[2] == {"if-empty": True, "if-unused": True}


@pytest.mark.parametrize("line", ["-p list list_queues", "--vhost list list_queues", "list_queues -p list"])
def test_the_value_of_an_option_may_be_called_as_a_command(line: str) -> None:
    assert read(line) == ("list_queues", [], {"vhost": "list"})


def test_an_argument_may_be_called_as_a_command_with_other_short_options() -> None:
    assert read("delete_queue list -e")[1:] == (["list"], {"if-empty": True})
    assert read("-E list -m")[2] == {"enabled": True, "minimal": True}


def test_short_options_are_those_of_the_command() -> None:
    assert read("list -E -e -m")[2] == {"enabled": True, "implicitly-enabled": True, "minimal": True}
    assert read("delete_queue -e list")[1:] == (["list"], {"if-empty": True})


@pytest.mark.parametrize(("line", "says"), [
    ("add_user", "Error (argument validation): not enough arguments.\nArguments given:\n\tadd_user"),
    ("delete_user a b", "Error (argument validation): too many arguments."),
    ("list_users --nonsense", "Invalid options for this command:\n--nonsense : \nArguments given:"),
    ("list_users --priority 3", "Invalid options for this command:\n--priority : \nArguments given:"),
    ("list_queus", "\nCommand 'list_queus' not found. \nDid you mean 'list_queues'? "),
    ("xyzzy", "\nCommand 'xyzzy' not found. \n\nUsage"),
    ("hlep", "\nCommand 'hlep' not found. \nDid you mean 'help'? "),
    ("restore", "\nCommand 'restore' not found. \nDid you mean 'warren restore'? "),
    ("migrate", "\nCommand 'migrate' not found. \nDid you mean 'warren migrate'? "),
    ("list_users --formater=json", ":\n--formater : \nDid you mean '--formatter'? \nArguments given:"),
    ("set_policy a b c --aply-to x", ":\n--aply-to : \nDid you mean '--apply-to'? \nArguments given:"),
    ("--host localhost list_users", ":\n--host : \nDid you mean '--url'? \nArguments given:"),
    ("list_users --timeout", "requires an argument"),
])  # fmt: skip
def test_a_wrong_line_gets_rabbitmqs_error(line: str, says: str) -> None:
    with pytest.raises(BadCommandLine) as wrong:
        parse(shlex.split(line))
    assert says in str(wrong.value)


def test_the_commands_of_warren_are_known_by_name() -> None:
    actions = cli.parser(load_commands(cli.OURS))._actions
    (commands,) = (action.choices for action in actions if isinstance(action, argparse._SubParsersAction))
    assert {*OF_WARREN, "help", "version"} == commands.keys()


def test_an_option_is_of_the_same_kind_in_all_commands() -> None:
    options = {(name, bool(value)) for command in COMMANDS.values() for name, value in command.options.items()}
    assert len(options) == len(dict(options))
    for command in COMMANDS.values():
        letters = list((GLOBAL_SHORT | dict(command.short)).values())
        assert len(letters) == len(set(letters))


def test_each_command_has_help_and_one_name() -> None:
    assert len(COMMANDS) == sum(len(group) for group in GROUPS.values())
    for command in COMMANDS.values():
        assert command.usage in help_of(command) and command.about in help_of(command)
        assert parse([command.name, "--help"]).options["help"]
        assert parse(["help", command.name]).command == command.name
