"""A test of the image and of the compose files for one broker, the dashboards and the analysis.

Run `python3 docker/check_image.py`. It needs nothing but Python's standard library and a Docker engine, with
docker-compose, `docker compose` or both. Exit status: 0 if all parts hold, or if there is no engine; otherwise 1.
`--only` names parts, `--build-arg` is passed to the build of the image. Where no registry can be reached, Prometheus is
built from Debian's package, and Grafana is left out.
"""

import argparse
import base64
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from compose_check import FOLDER, Failed, run, succeeds, until

IMAGE = "warren:local"
NAME = "warren-image-check"  # of the container, its volume, and the projects of compose
STOP_S = 10.0  # that `docker stop` waits before it kills
FILES = (
    "compose.yaml",
    "ring/compose.yaml",
    "analytics/compose.yaml",
    "monitoring/compose.yaml",
    "compose.replicated.yaml",
)
PROMETHEUS = "warren-prometheus:local"
PROMETHEUS_FILE = """\
FROM {base}
RUN apt-get update -q && apt-get install -y -q --no-install-recommends prometheus && install -d -m 777 /prometheus
USER 65534
ENTRYPOINT ["prometheus"]
"""
ANALYSIS_S = 900.0  # within which there is a report: on a busy machine Spark alone starts in minutes
# Command lines that health checks and scripts of others use, and their exit statuses.
COMMANDS = {
    "rabbitmq-diagnostics -q ping": 0,
    "rabbitmq-diagnostics -q check_running": 0,
    "rabbitmq-diagnostics -q check_local_alarms": 0,
    "rabbitmq-diagnostics -q check_port_connectivity": 0,
    "rabbitmq-diagnostics -q status": 0,
    "rabbitmq-queues check_if_node_is_quorum_critical": 0,
    "rabbitmq-upgrade await_online_quorum_plus_one -t 5": 0,
    "rabbitmq-plugins list -q -m -E": 0,
    "rabbitmq-plugins enable --offline rabbitmq_management rabbitmq_federation": 0,
    "rabbitmq-plugins enable rabbitmq_mqtt": 70,
    "rabbitmq-plugins is_enabled rabbitmq_mqtt": 69,
    "rabbitmq-plugins list_users": 64,
    "rabbitmqctl await_startup": 0,
    "rabbitmqctl list_queues name messages": 0,
    "warrenctl version": 0,
    "healthcheck": 0,
}
HEALTH_CHECK = "python -I -S /usr/local/bin/healthcheck.py"
# Prints the processor time of a command, in milliseconds.
PROCESSOR_TIME = """
import resource, subprocess, sys
for _ in range(10):
    subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(round((used.ru_utime + used.ru_stime) * 100))
"""


def attempt(*command: str) -> tuple[int, str]:
    """Return the exit status of a command, and its output and errors."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", check=False
    )
    return done.returncode, done.stdout


def require(holds: object, what: str) -> None:
    """Raises Failed unless it holds."""
    if not holds:
        raise Failed(what)


def inspect(name: str, field: str) -> str:
    return run("docker", "inspect", "--format", f"{{{{{field}}}}}", name).strip()


def is_healthy(name: str = NAME) -> bool:
    return inspect(name, ".State.Health.Status") == "healthy"


@contextmanager
def container(*options: str, words: Sequence[str] = ()) -> Iterator[None]:
    """A container of the image, which is removed with its anonymous volumes."""
    try:
        run("docker", "run", "--detach", "--name", NAME, *options, IMAGE, *words)
        yield
    except Failed:
        print(attempt("docker", "logs", "--tail", "20", NAME)[1], file=sys.stderr)
        raise
    finally:
        attempt("docker", "rm", "--force", "--volumes", NAME)


def execute(command: str) -> tuple[int, str]:
    return attempt("docker", "exec", NAME, *command.split(" "))


def stop() -> float:
    """Stop the container; return how long that took. Raises Failed unless its exit status is 0."""
    begin_s = time.monotonic()
    run("docker", "stop", "--time", f"{STOP_S:.0f}", NAME)
    status = inspect(NAME, ".State.ExitCode")
    require(status == "0", f"stopped with status {status}")
    return time.monotonic() - begin_s


# The parts


def check_build(arguments: Sequence[str]) -> None:
    """The image is built, has no user root, and says which build it has."""
    begin_s = time.monotonic()
    options = [word for argument in arguments for word in ("--build-arg", argument)]
    run(
        "docker", "build", "--quiet", "--file", str(FOLDER / "Dockerfile"), "--tag", IMAGE, *options, str(FOLDER.parent)
    )
    took_s = time.monotonic() - begin_s
    require(inspect(IMAGE, ".Config.User") == "999:999", "the user is not 999")
    question = "import warren.broker.compilation as built; print(built.BUILD)"
    build = run("docker", "run", "--rm", IMAGE, "python", "-c", question).strip()
    size = int(inspect(IMAGE, ".Size")) / 1e6
    base = int(inspect(base_name(), ".Size")) / 1e6
    print(f"built in {took_s:.0f} s: {size:.0f} MB on a base of {base:.0f} MB, {build}")


def base_name() -> str:
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    found = re.search(r"^ARG BASE=(\S+)", text, re.MULTILINE)
    assert found is not None
    return found[1]


def check_start() -> None:
    """A read-only container prints a random password once, is healthy, and stops cleanly on SIGTERM."""
    run("docker", "volume", "create", NAME)
    try:
        begin_s = time.monotonic()
        with container("--read-only", "--volume", f"{NAME}:/var/lib/rabbitmq", "--hostname", "here"):
            until("the broker answers", lambda: execute("rabbitmq-diagnostics -q ping")[0] == 0)
            print(f"answers {time.monotonic() - begin_s:.1f} s after `docker run`, with a read-only root")
            until("the container is healthy", is_healthy)
            (password,) = passwords()
            require(execute(f"rabbitmqctl authenticate_user guest {password}")[0] == 0, "the password is wrong")
            require(execute("rabbitmqctl authenticate_user guest guest")[0] != 0, "guest has the password guest")
            command = execute("cat /proc/1/cmdline")[1]
            require(command.endswith("warren\0serve\0"), f"process 1 is {command!r}")
            print(f"stopped {stop():.1f} s after SIGTERM, with status 0")
            run("docker", "start", NAME)
            until("it answers again", lambda: execute("rabbitmq-diagnostics -q ping")[0] == 0)
            require(passwords() == [password], "the password was printed again")
            print("one password, printed at the first start")
    finally:
        attempt("docker", "volume", "rm", NAME)


def passwords() -> list[str]:
    return re.findall(r"shown only once: (\S+)", run("docker", "logs", NAME))


def check_users() -> None:
    """Any user may run the image, and a broker is never root."""
    for user, runs_as in (("12345:0", "12345"), ("1000650000:0", "1000650000"), ("root", "999")):
        with container("--read-only", "--user", user):
            until("the broker answers", lambda: execute("rabbitmq-diagnostics -q ping")[0] == 0)
            found = re.search(r"^Uid:\t(\d+)", execute("cat /proc/1/status")[1], re.MULTILINE)
            require(found is not None and found[1] == runs_as, f"as {user}, the broker runs as another user")
            stop()
    print("runs as 999, as any other number with group 0, and as 999 if it is started by root")


def check_names() -> None:
    """RabbitMQ's tools have the exit statuses that scripts expect; a health check costs little."""
    with container():
        until("the broker answers", lambda: execute("rabbitmq-diagnostics -q ping")[0] == 0)
        for line, expected in COMMANDS.items():
            status, output = execute(HEALTH_CHECK if line == "healthcheck" else line)
            require(status == expected, f"{line}: status {status} in place of {expected}: {output}")
        print(f"{len(COMMANDS)} command lines have the exit statuses of RabbitMQ's tools")
        measure = ["docker", "exec", NAME, "python", "-c", PROCESSOR_TIME]
        own, ping = (run(*measure, *line.split()).strip() for line in (HEALTH_CHECK, "warrenctl -q ping"))
        print(f"processor time: the health check {own} ms, `warrenctl ping` {ping} ms")


def check_variables() -> None:
    """RabbitMQ's variables and files are followed, and those without effect are named."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "password").write_text("s3cret\n")
        (folder / "enabled_plugins").write_text("[rabbitmq_management,rabbitmq_mqtt].\n")
        (folder / "20-own.conf").write_text("heartbeat = 7\nload_definitions = /etc/rabbitmq/definitions.json\n")
        user = {"name": "loaded", "password": "x", "tags": ["administrator"]}
        (folder / "definitions.json").write_text(json.dumps({"users": [user], "vhosts": [{"name": "loaded"}]}))
        secret = ["--volume", f"{folder}/password:/run/secrets/password:ro"]
        plugins = ["--volume", f"{folder}/enabled_plugins:/etc/rabbitmq/enabled_plugins:ro"]
        variables = {
            "RABBITMQ_DEFAULT_USER": "alice",
            "RABBITMQ_DEFAULT_PASS_FILE": "/run/secrets/password",
            "RABBITMQ_DEFAULT_VHOST": "sales",
            "RABBITMQ_NODENAME": "rabbit@there",
            "RABBITMQ_ERLANG_COOKIE": "x",
        }
        options = [word for pair in variables.items() for word in ("--env", "=".join(pair))]
        with container(*secret, *plugins, *options):
            until("the broker answers", lambda: execute("rabbitmq-diagnostics -q ping")[0] == 0)
            require(execute("rabbitmqctl authenticate_user alice s3cret")[0] == 0, "the password of the file is wrong")
            require("sales" in execute("rabbitmqctl -q list_vhosts")[1], "there is no virtual host sales")
            require("rabbit@there" in execute("rabbitmqctl status")[1], "the node has another name")
            log = run("docker", "logs", NAME)
            require("RABBITMQ_ERLANG_COOKIE: ignored" in log, "the cookie is ignored silently")
            require("rabbitmq_mqtt: Warren does not have" in log, "rabbitmq_mqtt is missing silently")
            require(passwords() == [], "a password was printed although one is given")
        files = [("20-own.conf", "conf.d/20-own.conf"), ("definitions.json", "definitions.json")]
        mounts = [word for source, to in files for word in ("--volume", f"{folder}/{source}:/etc/rabbitmq/{to}:ro")]
        with container(*mounts):
            until("the broker answers", lambda: execute("rabbitmq-diagnostics -q ping")[0] == 0)
            require("loaded" in execute("rabbitmqctl -q list_users")[1], "definitions.json was not loaded")
            require("heartbeat = 7" in execute("rabbitmqctl -q environment")[1], "conf.d was not read")
    for variable in ("RABBITMQ_SSL_CERTFILE", "RABBITMQ_VM_MEMORY_HIGH_WATERMARK", "RABBITMQ_MNESIA_BASE"):
        status, output = attempt("docker", "run", "--rm", "--env", f"{variable}=x", IMAGE)
        require(status == 1 and variable in output, f"{variable} is not refused")
    print("variables, secrets, conf.d and definitions.json are followed; those without effect are named or refused")


def composes() -> list[list[str]]:
    """Return this machine's commands for compose, the newer one first."""
    words = (["docker", "compose"], ["docker-compose"])
    return [each for each in words if succeeds(*each, "version")]


def check_compose() -> None:
    """Each compose file is valid for each version of compose that is there."""
    for words in composes():
        version = run(*words, "version", "--short").strip()
        for file in FILES:
            run(*words, "--file", str(FOLDER / file), "config", "--quiet")
        print(f"{len(FILES)} files are valid for compose {version}")


@contextmanager
def project(file: str, *services: str, build: bool = False) -> Iterator[list[str]]:
    """The containers of a compose file, which are removed with their volumes.

    They use the image that the checks before have built; with `build`, theirs is built first.
    """
    command = [*composes()[0], "--project-name", NAME, "--file", str(FOLDER / file)]
    try:
        run(*command, "up", "--detach", *["--build"] * build, *services)
        yield command
    except Failed:
        print(attempt(*command, "logs", "--tail", "20")[1][-4000:], file=sys.stderr)
        raise
    finally:
        run(*command, "down", "--volumes", "--timeout", f"{STOP_S:.0f}")


def answer(address: str, user: str = "") -> str:
    """Return the body of a response with status 200, or an empty text."""
    request = urllib.request.Request(f"http://{address}")
    if user:
        request.add_header("authorization", "Basic " + base64.b64encode(user.encode()).decode())
    with contextlib.suppress(OSError, urllib.error.URLError), urllib.request.urlopen(request, timeout=10) as response:
        return str(response.read().decode("utf-8", "replace"))
    return ""


def published(command: list[str], service: str, port: int) -> str:
    """Return the address of this machine at which a port of a service is published."""
    return run(*command, "port", service, str(port)).strip()


def check_one() -> None:
    """compose.yaml: one broker, its API for guest, and the pages of the user interface."""
    os.environ.update(WARREN_AMQP_PORT="0", WARREN_HTTP_PORT="0", WARREN_METRICS_PORT="0")
    begin_s = time.monotonic()
    with project("compose.yaml") as command:
        http = published(command, "warren", 15672)
        until("the API answers guest", lambda: answer(f"{http}/api/overview", "guest:guest"))
        print(f"compose.yaml: the API answers {time.monotonic() - begin_s:.1f} s after `up`")
        require("<html" in answer(f"{http}/").lower(), "there is no user interface")
        metrics = published(command, "warren", 15692)
        require("rabbitmq_queues 0" in answer(f"{metrics}/metrics"), "there are no metrics")


def check_monitoring() -> None:
    """monitoring/compose.yaml: Prometheus scrapes all brokers and evaluates the alerts; Grafana has the dashboards."""
    found = re.search(r"GRAFANA_IMAGE:-([^}]+)", (FOLDER / "monitoring/compose.yaml").read_text(encoding="utf-8"))
    assert found is not None
    with_grafana = succeeds("docker", "pull", "--quiet", found[1])
    if not succeeds("docker", "pull", "--quiet", "prom/prometheus:v2.53.3"):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "Dockerfile").write_text(PROMETHEUS_FILE.format(base=base_name()), encoding="utf-8")
            run("docker", "build", "--quiet", "--tag", PROMETHEUS, folder)
        os.environ["PROMETHEUS_IMAGE"] = PROMETHEUS
    os.environ.update(PROMETHEUS_PORT="0", GRAFANA_PORT="0")
    services = [*[f"warren-{site}" for site in "abc"], "publisher-a", "consumer-c", "prometheus"]
    with project("monitoring/compose.yaml", *services, *["grafana"] * with_grafana) as command:
        prometheus = published(command, "prometheus", 9090) + "/api/v1"

        def rows(path: str, *keys: str) -> list[dict[str, object]]:
            found = json.loads(answer(f"{prometheus}/{path}") or "{}").get("data", {})
            for key in keys:
                found = found[0][key] if isinstance(found, list) else found.get(key, [])
            return list(found)

        def all_up() -> bool:
            targets = rows("targets", "activeTargets")
            return len(targets) == 6 and all(target["health"] == "up" for target in targets)

        def all_evaluated() -> bool:
            return {rule["health"] for rule in rows("rules", "groups", "rules")} == {"ok"}

        until("six targets are up", all_up)
        until("all alerts are evaluated", all_evaluated)
        until("links have a lag", lambda: len(rows("query?query=warren_federation_link_lag_seconds", "result")) >= 2)
        print("monitoring/compose.yaml: six targets are up, all alerts evaluated, links have a lag")
        if not with_grafana:
            print(f"NOTE: no registry offers {found[1]} here: Grafana is not run")
            return
        grafana = published(command, "grafana", 3000)
        until("Grafana has the dashboards", lambda: answer(f"{grafana}/api/search?tag=warren").count('"uid"') == 4)
        print("Grafana has four dashboards")


def check_analytics() -> None:
    """analytics/compose.yaml: Spark makes a report while brokers run, and misses nothing after they have stopped."""
    with project("analytics/compose.yaml", build=True) as command:
        where = "/var/lib/warren"
        begin_s = time.monotonic()
        ask = [*command, "exec", "-T", "analyze", "test", "-s", f"{where}/report/index.html"]
        until("there is a report", lambda: not attempt(*ask)[0], ANALYSIS_S)
        print(f"analytics/compose.yaml: a report {time.monotonic() - begin_s:.0f} s after `up`")
        stopped = ["publisher-a", "consumer-c", "analyze", "warren-a", "warren-b", "warren-c"]
        run(*command, "stop", "--timeout", "30", *stopped)
        line = ["warren", "analyze", "--input", f"{where}/export", "--output", f"{where}/whole"]
        status, output = attempt(*command, "run", "--rm", "--no-deps", "-T", "analyze", *line)
        require(status == 0, f"the analysis of all exports ends with status {status}:\n{output[-2000:]}")
        print("after all have stopped, nothing is missing")


PARTS: dict[str, Callable[[], None]] = {
    "start": check_start,
    "users": check_users,
    "names": check_names,
    "variables": check_variables,
    "compose": check_compose,
    "one": check_one,
    "monitoring": check_monitoring,
    "analytics": check_analytics,
}


def main() -> int:
    """Run the parts and return the exit status."""
    parser = argparse.ArgumentParser(description="Builds the image and runs it as its users would.")
    parser.add_argument(
        "--only", nargs="+", choices=["build", *PARTS], default=["build", *PARTS], help="the parts to run"
    )
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE", help="for the build")
    options = parser.parse_args()
    if not succeeds("docker", "info"):
        print("NOTE: no Docker engine answers: the image is not checked")
        return 0
    try:
        if "build" in options.only:
            check_build(options.build_arg)
        for name, part in PARTS.items():
            if name in options.only:
                part()
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 1
    print("all parts hold")
    return 0


if __name__ == "__main__":
    sys.exit(main())
