"""Loading of plugins, and the errors of those that cannot be used."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import run
from tests.support.checkout import ROOT, write_distribution
from warren.broker.core.exchanges.built_in import new_registry
from warren.broker.core.exchanges.exchange_type import Registry
from warren.broker.plugin_host.loading import COMMANDS, SERVICES, PluginError, load_exchange_types, load_services

WORKS = """
from warren.broker.plugin import ExchangeType
class Exchange(ExchangeType): pass
"""


SERVES = """
from warren.broker.plugin import Host, Service
class Beat(Service):
    async def start(self, host):
        host.report("beat_started", "info", {})
    async def stop(self): ...
"""


def distribution(
    folder: Path, name: str, entries: str, module: str = WORKS, group: str = "warren.exchange_types"
) -> None:
    """Install a distribution in this folder; its module has the same name."""
    metadata = folder / f"{name}-1.5.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{entries}\n", encoding="utf-8")
    (folder / f"{name}.py").write_text(module, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all installed distributions that the process can see."""
    python = [path for path in sys.path if path.startswith(sys.base_prefix) and "-packages" not in path]
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(ROOT), *python])
    write_distribution(tmp_path)
    return tmp_path


def said(registry: Registry) -> str:
    with pytest.raises(PluginError) as caught:
        load_exchange_types(registry)
    return str(caught.value)


def test_the_plugins_of_this_checkout_are_found(folder: Path) -> None:
    registry = new_registry()
    load_exchange_types(registry)
    types = dict(registry.distributions())
    assert types["direct"] == "" and types["x-presence"] == types["x-modulus-hash"]
    assert types["x-presence"].startswith("warrenmq ")


def test_a_type_of_another_distribution_has_the_name_of_its_entry_point(folder: Path) -> None:
    distribution(folder, "loading_works", "x-works = loading_works:Exchange")
    registry = new_registry()
    load_exchange_types(registry)
    assert dict(registry.distributions())["x-works"] == "loading_works 1.5"
    assert registry.find("x-works").__name__ == "Exchange"


@pytest.mark.parametrize(
    ("entries", "module", "reason"),
    [
        ("x-b = loading_bad:Exchange", "import nothing_of_this_name", "ModuleNotFoundError: No module named"),
        ("x-b = loading_bad:Exchange", "class Exchange(", "SyntaxError: "),
        ("x-b = loading_bad:Exchange", "1 / 0", "ZeroDivisionError: division by zero"),
        ("x-b = loading_bad:Other", WORKS, "AttributeError: "),
        ("x-b = loading_bad:name", "name = 'text'", "TypeError: loading_bad:name is no ExchangeType"),
        ("x-b = loading_bad:Exchange", "class Exchange: pass", "TypeError: loading_bad:Exchange is no ExchangeType"),
        ("topic = loading_bad:Exchange", WORKS, "ValueError: the name is taken, it is built in"),
        ("x-presence = loading_bad:Exchange", WORKS, "ValueError: the name is taken, "),
        (f"{'x' * 256} = loading_bad:Exchange", WORKS, "ValueError: the name of an exchange type has 1 to 255 octets"),
    ],
    ids=lambda text: text[:20],
)
def test_a_plugin_that_cannot_be_used_is_named_in_one_line(
    folder: Path, entries: str, module: str, reason: str
) -> None:
    sys.modules.pop("loading_bad", None)
    distribution(folder, "loading_bad", entries, module)
    line = said(new_registry())
    assert reason in line and "loading_bad 1.5" in line and "\n" not in line
    assert line.startswith(f"exchange type '{entries.partition(' ')[0]}' of ")


def process(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `warren` with only the distributions of this folder."""
    return run(*words, folder=folder, paths=(write_distribution(folder), ROOT))


def test_warren_lists_the_types_with_their_distributions(tmp_path: Path) -> None:
    distribution(tmp_path, "loading_works", "x-works = loading_works:Exchange")
    done = process(tmp_path, "plugins")
    assert done.returncode == 0 and done.stderr == ""
    listed = dict(line.split("\t") for line in done.stdout.splitlines())
    assert (listed["headers"], listed["x-works"]) == ("built in", "loading_works 1.5")


@pytest.mark.sockets
def test_a_plugin_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    distribution(tmp_path, "loading_bad", "x-b = loading_bad:Exchange", "1 / 0")
    done = process(tmp_path, "serve", "--memory", "--amqp", "127.0.0.1:0")
    assert done.returncode == 70
    (line,) = done.stderr.splitlines()
    assert "cannot_load_plugin" in line and "exchange type 'x-b' of loading_bad 1.5: ZeroDivisionError" in line
    done = process(tmp_path, "plugins")
    assert (done.returncode, done.stdout) == (70, "")
    assert done.stderr == "warren: exchange type 'x-b' of loading_bad 1.5: ZeroDivisionError: division by zero\n"


def test_a_service_is_found_by_its_entry_point_and_made(folder: Path) -> None:
    distribution(folder, "loading_serves", "beat = loading_serves:Beat", SERVES, SERVICES)
    services = load_services()
    assert list(services) == sorted(services) and {"beat", "management", "prometheus"} <= set(services)
    assert type(services["beat"]).__name__ == "Beat" and services["beat"].status() is None


@pytest.mark.parametrize(
    ("entries", "module", "reason"),
    [
        ("beat = loading_bad:Beat", "1 / 0", "ZeroDivisionError: division by zero"),
        ("beat = loading_bad:Exchange", WORKS, "TypeError: loading_bad:Exchange is no Service"),
        ("management = loading_bad:Beat", SERVES, "ValueError: the name is taken"),
    ],
    ids=["broken", "none", "taken"],
)
def test_a_service_that_cannot_be_used_is_named_in_one_line(
    folder: Path, entries: str, module: str, reason: str
) -> None:
    sys.modules.pop("loading_bad", None)
    distribution(folder, "loading_bad", entries, module, SERVICES)
    with pytest.raises(PluginError) as caught:
        load_services()
    line = str(caught.value)
    assert line.startswith(f"service '{entries.partition(' ')[0]}' of ") and line.endswith(reason)


@pytest.mark.sockets
def test_a_service_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    distribution(tmp_path, "loading_bad", "beat = loading_bad:Beat", "1 / 0", SERVICES)
    done = process(tmp_path, "serve", "--memory", "--amqp", "127.0.0.1:0")
    assert done.returncode == 70
    assert "service 'beat' of loading_bad 1.5: ZeroDivisionError" in done.stderr


GREETS = """
from warren.broker.plugin import Command
class Greet(Command):
    about = "say hello"
    def add_options(self, parser):
        parser.add_argument("--name", required=True)
    def run(self, options):
        print("hello", options.name)
        return 3
"""


def test_a_distribution_brings_a_command_of_warren(tmp_path: Path) -> None:
    distribution(tmp_path, "loading_greets", "greet = loading_greets:Greet", GREETS, COMMANDS)
    done = process(tmp_path, "greet", "--name", "rabbit")
    assert (done.returncode, done.stdout, done.stderr) == (3, "hello rabbit\n", "")
    assert "say hello" in process(tmp_path, "--help").stdout
    assert process(tmp_path, "greet").stderr == "warren greet: missing: --name (`warren help greet` shows the usage)\n"


def test_a_command_that_cannot_be_used_is_named_in_one_line_and_no_other_is_the_worse_for_it(tmp_path: Path) -> None:
    distribution(tmp_path, "loading_greets", "greet = loading_greets:Nobody", GREETS, COMMANDS)
    done = process(tmp_path, "greet", "--name", "rabbit")
    assert done.returncode == 70 and done.stderr.startswith("warren: command 'greet' of loading_greets 1.5: AttributeE")
    assert process(tmp_path, "plugins").returncode == 0


def test_a_command_may_not_have_the_name_of_one_of_ours(tmp_path: Path) -> None:
    distribution(tmp_path, "loading_greets", "doctor = loading_greets:Greet", GREETS, COMMANDS)
    done = process(tmp_path, "--help")
    assert done.stderr == "warren: command 'doctor' of loading_greets 1.5: the name is taken, it is built in\n"
