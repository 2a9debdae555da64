"""The commands of rabbitmq-plugins, as scripts and images run them; they change nothing."""

import json

import pytest

from tests.support.warrenctl import Controlled, Ready, Warrenctl

pytestmark = pytest.mark.sockets


def test_plugins_are_listed_by_rabbitmqs_names(ready: Ready, warrenctl: Warrenctl) -> None:
    status, out, _ = warrenctl("list management$")
    banner, *legend, line = out.splitlines()
    assert (status, banner) == (0, 'Listing plugins with pattern "management$" ...')
    assert legend[:2] == [
        " Configured: E = explicitly enabled; e = implicitly enabled",
        " | Status: * = running on rabbit@here",
    ]
    assert "[E*] rabbitmq_management " in out and line.startswith("[")
    assert warrenctl("list -m -s '^rabbitmq_management$'") == (0, "rabbitmq_management\n", "")
    shown = warrenctl("list -E -m -q")[1].splitlines()
    assert "rabbitmq_management" in shown and "rabbitmq_management_agent" not in shown
    assert "rabbitmq_management_agent" in warrenctl("list -e -m -q")[1].splitlines()
    output = json.loads(warrenctl("list '^rabbitmq_management$' --formatter json")[1])["plugins"][0]
    assert (output["name"], output["enabled"], output["running"]) == ("rabbitmq_management", "enabled", True)
    assert warrenctl("list '('")[0] == 65


def test_an_existing_plugin_is_enabled_and_stays(ready: Ready, warrenctl: Warrenctl) -> None:
    management = "rabbitmq_management"
    for line in (
        f"set {management}",
        f"enable {management}",
        f"disable {management}",
        "enable --all",
        f"enable --offline {management}",
    ):
        status, out, err = warrenctl(line)
        assert (status, err) == (0, "")
        assert out.endswith("Applying plugin configuration to rabbit@here...\nPlugin configuration unchanged.\n")
    assert out.startswith("Enabling plugins on node rabbit@here:\nrabbitmq_management\n")
    output = "Plugin rabbitmq_management is enabled on node rabbit@here\n"
    assert warrenctl("is_enabled rabbitmq_management -q") == (0, output, "")
    assert warrenctl("is_enabled rabbitmq_management rabbitmq_event_exchange")[0] == 0


def test_an_unknown_plugin_cannot_be_enabled(ready: Ready, warrenctl: Warrenctl) -> None:
    missing = "Error:\nThe following plugins were not found: rabbitmq_mqtt\n"
    assert warrenctl("enable rabbitmq_management rabbitmq_mqtt")[::2] == (70, missing)
    assert warrenctl("set rabbitmq_mqtt")[::2] == (65, missing)
    status, _, err = warrenctl("is_enabled rabbitmq_mqtt rabbitmq_stomp")
    assert status == 69
    assert err.startswith("Error:\nPlugins rabbitmq_mqtt, rabbitmq_stomp are not enabled on node rabbit@here. Enabled")
    assert warrenctl("enable")[0] == warrenctl("is_enabled")[0] == 64


def test_a_plugin_whose_service_does_not_run_is_not_enabled(controlled: Controlled, in_process: Warrenctl) -> None:
    assert in_process("is_enabled rabbitmq_management")[0] == 69
    assert "[  ] rabbitmq_management" in in_process("list")[1]
