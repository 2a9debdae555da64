"""Checks of docker/ that need no engine; `make ring-containers` runs it with one."""

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.broker_process import ANY_PORT, BrokerProcess
from tests.support.checkout import ROOT
from tests.support.definitions import new_node
from tests.support.polling import until
from warren.broker.config import Config, Sources
from warren.broker.core.definitions.importer import import_definitions
from warren.federation.link_spec import desired_links
from warren.federation.upstream.endpoint import parse_endpoint

DOCKER = ROOT / "docker"
RING = DOCKER / "ring"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMMANDS = PROJECT["scripts"]
SITES = {"a": "c", "b": "a", "c": "b"}  # site -> its upstream
REPLICATED = DOCKER / "replicated"
COMPOSE_FILES = sorted(DOCKER.rglob("compose.yaml"))
ALL_COMPOSE_FILES = [*COMPOSE_FILES, DOCKER / "compose.replicated.yaml"]
EVERY_COMPOSE_FILE = pytest.mark.parametrize(
    "file", ALL_COMPOSE_FILES, ids=lambda path: f"{path.parent.name}-{path.stem}"
)

sys.path.append(str(DOCKER))  # both import the module beside them
CHECK, REPLICATED_CHECK = (runpy.run_path(str(DOCKER / f"check_{name}.py")) for name in ("ring", "replicated"))
PATIENCE_S = 60.0

Instruction = tuple[str, str]


def instructions() -> list[Instruction]:
    """Return the instructions of the Dockerfile as word and rest, with continued lines joined."""
    lines = re.sub(r"^\s*#.*\n", "", (DOCKER / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    pairs = [line.split(None, 1) for line in lines.replace("\\\n", " ").splitlines() if line]
    return [(word, " ".join(rest.split())) for word, rest in pairs]


def given(word: str) -> list[str]:
    return [rest for each, rest in instructions() if each == word]


def environment() -> dict[str, str]:
    """Return the environment that the image sets."""
    (text,) = given("ENV")
    return dict(pair.split("=", 1) for pair in shlex.split(text))


def folders(folder: Path, main: str | None = None) -> dict[str, str]:
    """The image's variables, with its configuration in this folder; `main` in place of its rabbitmq.conf."""
    (folder / "conf.d").mkdir()
    for source, target in copies():
        if target.startswith("/etc/rabbitmq/"):
            text = (ROOT / source).read_text(encoding="utf-8")
            (folder / target.removeprefix("/etc/rabbitmq/")).write_text(text, encoding="utf-8")
    if main is not None:
        (folder / "rabbitmq.conf").write_text(main, encoding="utf-8")
    return {name: value.replace("/etc/rabbitmq", str(folder)) for name, value in environment().items()}


def copies() -> Iterator[tuple[str, str]]:
    """Return the paths that are copied from the tree, and their targets."""
    for text in given("COPY"):
        *names, target = text.split()
        if not names[0].startswith("--from"):
            yield from ((name, target) for name in names)


def health_check() -> list[str]:
    """Return the command of the image's health check."""
    (health,) = given("HEALTHCHECK")
    return list(json.loads(health.partition("CMD ")[2]))


def composed(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return content


def test_the_image_has_two_stages_of_an_official_slim_base_and_no_user_root() -> None:
    assert [text.split()[0] for text in given("FROM")] == ["${BASE}"] * 2
    assert instructions()[0][0] == "ARG" and re.fullmatch(r"BASE=python:3\.1[123]-slim(-[a-z]+)?", instructions()[0][1])
    assert given("USER") == ["999:999"]
    words = [word for word, _ in instructions()]
    assert "RUN" not in words[words.index("USER") :]


@pytest.mark.parametrize(("wanted", "status", "says"), [("1", 1, "modules cannot be compiled"), ("0", 0, "")])
def test_an_image_whose_modules_were_to_be_compiled_and_are_not_is_not_built(
    wanted: str, status: int, says: str
) -> None:
    (check,) = [text.partition("&& {")[2] for text in given("RUN") if "import BUILD, COMPILED" in text]
    script = "{" + check.replace("/opt/warren/bin/python", sys.executable)
    environment = {"WARREN_COMPILE": wanted, "WARREN_PURE": "1"}
    done = subprocess.run(["sh", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status and done.stdout == "" and says in done.stderr


def test_what_is_copied_is_there_and_is_not_kept_from_the_engine() -> None:
    let_through = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for name, _ in copies():
        assert list(ROOT.glob(name))
        assert name.split("/")[0] in let_through


def test_the_image_listens_everywhere_and_lets_guest_in(tmp_path: Path) -> None:
    sources = Sources(environment=folders(tmp_path))
    config = sources.load()
    assert sources.warnings == []
    assert config.listeners_tcp == (("::", 5672),)
    assert config.loopback_users == ()


def test_the_image_has_no_password_that_everybody_knows(tmp_path: Path) -> None:
    image = folders(tmp_path)
    assert Sources(environment=image).load().initial_password is None
    given_one = image | {"RABBITMQ_DEFAULT_PASS": "guest"}
    assert Sources(environment=given_one).load().initial_password == "guest"


@pytest.mark.parametrize(
    ("text", "listeners"),
    [
        ("heartbeat = 5", (("::", 5672),)),
        ("listeners.tcp.1 = 0.0.0.0:5673", (("0.0.0.0", 5673),)),
        ("listeners.tcp = none", ()),
    ],
)
def test_a_configuration_of_the_users_own_keeps_its_word(
    tmp_path: Path, text: str, listeners: tuple[tuple[str, int], ...]
) -> None:
    config = Sources(environment=folders(tmp_path, text)).load()
    assert config.listeners_tcp == listeners
    assert config.loopback_users == ()


def test_variables_of_rabbitmqs_image_win_over_its_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    asked = {
        "RABBITMQ_DEFAULT_USER": "alice",
        "RABBITMQ_DEFAULT_PASS_FILE": str(tmp_path / "secret"),
        "RABBITMQ_DEFAULT_VHOST": "v",
        "RABBITMQ_NODENAME": "rabbit@here",
    }
    config = Sources(environment=folders(tmp_path) | asked).load()
    assert (config.default_user, config.default_pass, config.default_vhost) == ("alice", "s3cret", "v")
    assert config.node == "rabbit@here"


def test_data_are_on_the_volume_and_the_commands_look_for_the_node_there(tmp_path: Path) -> None:
    (volume,) = given("VOLUME")
    config = Sources(environment=folders(tmp_path)).load()
    assert Path(config.data_dir).parent == Path(volume)
    assert Sources(str(DOCKER / "rabbitmq.conf"), environment={}).load().data_dir == config.data_dir


def test_the_ports_of_the_image_are_those_of_the_configuration() -> None:
    ours = Config()
    plain = {ours.listeners_tcp[0][1], ours.management.tcp.port, ours.prometheus.tcp.port}
    (ports,) = given("EXPOSE")
    assert set(map(int, ports.split())) == plain | {port - 1 for port in plain if port is not None}


def test_the_commands_of_the_image_are_there() -> None:
    assert health_check()[-1] in [f"/usr/local/bin/{Path(name).name}" for name, _ in copies()]
    (labels,) = given("LABEL")
    assert {"title", "description", "licenses", "version", "revision"} == set(re.findall(r"image\.(\w+)=", labels))
    assert f"VERSION={PROJECT['version']}" in given("ARG")
    (begin,) = given("CMD")
    assert json.loads(begin) == ["warren", "serve"] and "warren" in COMMANDS
    (entry,) = given("ENTRYPOINT")
    assert [f"docker/{name}" for name in json.loads(entry)] == [name for name, _ in copies() if name.endswith(".sh")]
    assert (DOCKER / "entrypoint.sh").stat().st_mode & 0o111


@EVERY_COMPOSE_FILE
def test_a_compose_file_names_what_there_is(file: Path) -> None:
    content = composed(file)
    for name, service in content["services"].items():
        if (build := service.get("build")) is None:
            assert re.fullmatch(r"\$\{\w+_IMAGE:-[\w./-]+:v?[\d.]+\}", service["image"]), "a version of another project"
            continue
        assert (file.parent / build["context"] / build["dockerfile"]).exists()
        extras = build.get("args", {}).get("EXTRAS", "")
        assert (DOCKER / f"requirements{'-' if extras else ''}{extras}.txt").exists()
        assert set(service.get("networks", ())) <= set(content.get("networks", {})), name
        assert set(service.get("depends_on", ())) <= set(content["services"]), name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (file.parent / source).exists() if source.startswith(".") else source in content["volumes"]
            assert len(source) > 1 or source == ".", "compose 2 takes a name of one letter for a drive of Windows"


def test_each_compose_file_is_a_project_of_its_own_with_one_image() -> None:
    """A project is called after its folder, where nobody names it: docker-compose 1.29 takes no name in the file."""
    assert len({file.parent for file in COMPOSE_FILES}) == len(COMPOSE_FILES) == 4
    for file in COMPOSE_FILES:
        assert len({service["image"] for service in composed(file)["services"].values() if "build" in service}) == 1


@EVERY_COMPOSE_FILE
def test_no_service_leaves_a_volume_without_a_name(file: Path) -> None:
    (data,) = given("VOLUME")
    for name, service in composed(file)["services"].items():
        mounted = [volume.split(":")[1] for volume in service.get("volumes", ())] + service.get("tmpfs", [])
        assert data in mounted or service["image"] == "warren-postgresql:local" or "build" not in service, name


def test_a_terminal_shows_the_log_as_text_and_the_first_screen() -> None:
    assert composed(DOCKER / "compose.yaml")["services"]["warren"]["tty"] is True


def test_each_command_of_compose_names_its_project() -> None:
    named: dict[str, set[str]] = {}
    for path in (ROOT / "README.md", ROOT / "docs/start.md", DOCKER / "README.md", *COMPOSE_FILES):
        for project, file in re.findall(r"docker compose(?: -p (\S+))? -f (\S+)", path.read_text(encoding="utf-8")):
            named.setdefault(file, set()).add(project)
    assert all(len(projects) == 1 and "" not in projects for projects in named.values()), named
    assert len({project for (project,) in named.values()}) == len(named) == 5


@EVERY_COMPOSE_FILE
def test_ports_are_published_to_this_machine_alone(file: Path) -> None:
    (exposed,) = given("EXPOSE")
    for service in composed(file)["services"].values():
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")
            assert port.rpartition(":")[2] in exposed.split() or "build" not in service


@pytest.mark.parametrize(("site", "upstream"), SITES.items())
def test_the_definitions_of_a_site_make_one_link_of_the_ring(site: str, upstream: str) -> None:
    node = new_node()
    assert import_definitions(node, json.loads((RING / f"{site}.json").read_text(encoding="utf-8"))) == []
    ((key, link),) = desired_links(node, node.vhosts["/"].exchanges.values()).items()
    assert (key.vhost, key.kind, key.name, key.upstream) == ("/", "exchange", "federated.news", upstream)
    assert link.settings.max_hops == len(SITES) - 1
    (uri,) = link.settings.uris
    services = composed(RING / "compose.yaml")["services"]
    assert parse_endpoint(uri).host == services[f"warren-{upstream}"]["container_name"]
    assert node.parameters.globals()["cluster_name"] == site


@pytest.mark.parametrize("site", SITES)
def test_the_networks_of_the_ring_are_such_that_a_site_can_be_cut_off(site: str) -> None:
    services = composed(RING / "compose.yaml")["services"]
    assert services[f"warren-{site}"]["networks"] == ["ring", f"site-{site}"]
    for kind in ("publisher", "consumer"):
        client = services[f"{kind}-{site}"]
        assert client["networks"] == [f"site-{site}"]
        assert client["environment"]["SITE"] == site
        assert parse_endpoint(client["environment"]["BROKER"]).host == f"warren-{site}"


def test_the_configuration_of_the_ring_wins_over_that_of_the_image(tmp_path: Path) -> None:
    variables = folders(tmp_path)
    ring = (RING / "ring.conf").read_text(encoding="utf-8")
    (tmp_path / "conf.d" / "20-ring.conf").write_text(ring, encoding="utf-8")
    sources = Sources(environment=variables)
    config = sources.load()
    assert sources.warnings == []
    mounted = composed(RING / "compose.yaml")["services"]["warren-a"]["volumes"]
    assert f"./a.json:{config.load_definitions}:ro" in mounted


def begun(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run docker/entrypoint.sh with these arguments; `warren` prints its own, and no user is root."""
    for name, text in (("warren", 'echo "warren $*"'), ("id", "echo 999")):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", **variables}
    line = ["/bin/sh", str(DOCKER / "entrypoint.sh"), *words]
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["warren", "serve"], "warren serve"),
        (["rabbitmq-server"], "warren serve"),
        (["--memory", "--sync", "os"], "warren serve --memory --sync os"),
        ([], "warren serve"),
        (["echo", "a b"], "a b"),
    ],
)
def test_the_container_runs_what_it_is_asked_to(tmp_path: Path, words: list[str], said: str) -> None:
    done = begun(tmp_path, *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, said + "\n", "")


@pytest.mark.parametrize(
    "variable", ["RABBITMQ_SSL_CERTFILE", "RABBITMQ_MANAGEMENT_SSL_KEYFILE", "RABBITMQ_VM_MEMORY_HIGH_WATERMARK"]
)
def test_the_container_refuses_what_would_be_ignored(tmp_path: Path, variable: str) -> None:
    done = begun(tmp_path, "warren", **{variable: "x"})
    assert done.returncode == 1 and variable in done.stderr and done.stdout == ""
    assert begun(tmp_path, "warren", **{variable: ""}).returncode == 0


def test_the_container_names_the_variable_for_the_data_folder_that_it_follows(tmp_path: Path) -> None:
    done = begun(tmp_path, "warren", RABBITMQ_MNESIA_BASE="/data")
    assert done.returncode == 1 and "RABBITMQ_MNESIA_DIR" in done.stderr and done.stdout == ""


@pytest.mark.sockets
def test_the_health_check_succeeds_while_the_broker_answers_and_names_the_reason_otherwise(tmp_path: Path) -> None:
    check = [sys.executable, *health_check()[1:-1], str(DOCKER / "healthcheck.py")]

    def run() -> tuple[int, str, str]:
        variables = {"RABBITMQ_MNESIA_DIR": str(broker.data)}
        done = subprocess.run(check, env=variables, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    with BrokerProcess(tmp_path) as broker:
        assert run() == (0, "HTTP status 200\n", "")
        assert broker.warrenctl("stop_app").returncode == 0
        assert run() == (0, "HTTP status 200\n", ""), "as `warrenctl ping`, which needs no listener"
    said = "the broker does not answer at its unix socket: Connection refused\n"
    assert run() == (1, said, ""), "it was killed, which leaves the file"


@pytest.mark.sockets
def test_the_password_of_the_image_is_printed_at_the_first_start_alone_and_is_in_no_log(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.configure("warren.generate_default_pass = true")
    with broker:
        (password,) = re.findall(r"shown only once: (\S+)", broker.output.read_text())
        assert broker.warrenctl("authenticate_user", "guest", password).returncode == 0
        assert password not in str(broker.log_lines()) and broker.events("default_user_generated")
        broker.stop()
        broker.start()
        assert broker.output.read_text().count("shown only once") == 1


def test_the_replicated_brokers_have_one_store_and_all_clients_know_both() -> None:
    services = composed(DOCKER / "compose.replicated.yaml")["services"]
    for name in ("warren-a", "warren-b"):
        assert services[name]["environment"]["STORE"] == "postgresql://warren@server-a,server-b/warren"
    for name in ("publisher", "consumer"):
        hosts = [parse_endpoint(uri).host for uri in services[name]["environment"]["BROKERS"].split()]
        assert hosts == ["warren-a", "warren-b"]
    assert [services[f"server-{name}"]["environment"]["PEER"] for name in "ab"] == ["server-b", "server-a"]
    assert set(REPLICATED_CHECK["CONTAINERS"]) == {service["container_name"] for service in services.values()}
    for name in ("server.sh", "promote"):
        assert (REPLICATED / name).stat().st_mode & 0o111
        subprocess.run(["sh", "-n", str(REPLICATED / name)], check=True)


@pytest.mark.parametrize("name", ["image", "ring", "replicated"])
def test_without_an_engine_a_check_of_containers_says_so(tmp_path: Path, name: str) -> None:
    line = [sys.executable, str(DOCKER / f"check_{name}.py")]
    done = subprocess.run(line, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("NOTE: no Docker engine") and done.stdout.count("\n") == 1


def client(kind: str, broker: BrokerProcess, said: Path) -> subprocess.Popen[bytes]:
    """A publisher or consumer of the ring at site a; what it prints is in that file."""
    host, port = broker.address
    variables = {"SITE": "a", "BROKER": f"amqp://ring:ring@{host}:{port}", "RATE": "50"}
    with said.open("wb") as file:
        line = [sys.executable, str(RING / f"{kind}.py")]
        return subprocess.Popen(line, env={**os.environ, **variables}, stdout=file, stderr=subprocess.DEVNULL)


@pytest.mark.sockets
def test_publisher_and_consumer_go_on_after_a_break_and_say_what_the_check_reads(tmp_path: Path) -> None:
    config = tmp_path / "ring.conf"
    config.write_text(f"load_definitions = {RING / 'a.json'}")
    broker = BrokerProcess(tmp_path, "--http", ANY_PORT)
    said = {kind: tmp_path / kind for kind in ("consumer", "publisher")}
    clients: dict[str, subprocess.Popen[bytes]] = {}

    def came() -> set[int]:
        lines = CHECK["LINE"].findall(said["consumer"].read_text())
        return {int(number) for site, number, publisher in lines if site == publisher == "a"}

    try:
        broker.start(config=config)
        clients = {kind: client(kind, broker, said[kind]) for kind in said}
        until(lambda: 3 in came(), "messages arrive")
        assert broker.warrenctl("close_all_connections", "test").returncode == 0
        until(lambda: "publishes again" in said["publisher"].read_text(), "the publisher sees the break")
        before = max(came())
        until(lambda: before + 3 in came(), "messages arrive after the break")
        clients["publisher"].terminate()
        assert clients["publisher"].wait(PATIENCE_S) == 0
        (last,) = CHECK["DONE"].findall(said["publisher"].read_text())
        until(lambda: came() == set(range(1, int(last) + 1)), "all messages arrive")
        clients["consumer"].terminate()
        assert clients["consumer"].wait(PATIENCE_S) == 0
        assert "missing" not in said["consumer"].read_text()
    finally:
        for process in clients.values():
            process.kill()
            process.wait()
        broker.close()


@pytest.mark.sockets
def test_clients_of_the_replicated_brokers_find_the_one_that_serves_and_say_what_the_check_reads(
    tmp_path: Path,
) -> None:
    said = {kind: tmp_path / kind for kind in ("consumer", "publisher")}
    clients: dict[str, subprocess.Popen[bytes]] = {}
    with BrokerProcess(tmp_path / "broker", memory=True) as broker:
        host, port = broker.address
        variables = {**os.environ, "BROKERS": f"amqp://127.0.0.1:1 amqp://{host}:{port}", "RATE": "50"}
        try:
            for kind, output in said.items():
                line = [sys.executable, str(REPLICATED / f"{kind}.py")]
                with output.open("wb") as file:
                    clients[kind] = subprocess.Popen(line, env=variables, stdout=file, stderr=subprocess.DEVNULL)

            def received() -> set[int]:
                return {int(number) for number, _ in REPLICATED_CHECK["RECEIVED"].findall(said["consumer"].read_text())}

            until(lambda: 3 in received(), "messages arrive")
            clients["publisher"].terminate()
            assert clients["publisher"].wait(PATIENCE_S) == 0
            text = said["publisher"].read_text()
            (last,) = REPLICATED_CHECK["DONE"].findall(text)
            assert REPLICATED_CHECK["CONFIRMED"].findall(text)[-1] == (last, f"{host}:{port}")
            until(lambda: received() == set(range(1, int(last) + 1)), "all messages arrive")
            clients["consumer"].terminate()
            assert clients["consumer"].wait(PATIENCE_S) == 0
            assert f"in all: {last} received, 0 of them again, 0 missing" in said["consumer"].read_text()
        finally:
            for process in clients.values():
                process.kill()
                process.wait()
