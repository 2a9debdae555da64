"""A check of an installed Warren: its commands, run outside of any checkout, serve real clients."""

import json
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

from tests.support.broker_process import BrokerProcess
from tests.support.http import HTTPClient
from tests.support.wheel import outside

COMMAND_WITHIN_S = 900  # the first start of Spark on a busy machine
BODY = b"carried by an installed broker"
PERSISTENT = {"delivery_mode": 2}
# Imports modules, and prints the names of those that are no extensions.
NOT_EXTENSIONS = """
import importlib, importlib.machinery, sys
print(*[name for name in sys.argv[1:]
        if not importlib.import_module(name).__file__.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))])
"""


def succeed(*words: str | Path, folder: Path, **variables: str) -> str:
    """Run a command in this folder, check that it succeeds, and return its output."""
    environment = outside() | variables
    ran = subprocess.run(
        list(words), cwd=folder, env=environment, capture_output=True, text=True, timeout=COMMAND_WITHIN_S, check=False
    )
    assert ran.returncode == 0, f"{' '.join(map(str, words))}: status {ran.returncode}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def check_installed(
    commands: Path, folder: Path, extensions: Collection[str] = (), java_cache: Path | None = None
) -> Iterator[str]:
    """Check the commands in a folder, and yield a line for each thing that works. Raises AssertionError.

    A broker serves AMQP, HTTP and the user interface, `warrenctl status` reports it, and `warren doctor` verifies what
    it has stored. `extensions` are the modules that are compiled: Python imports these, and the broker logs that build.
    With `java_cache`, the folder of the cache of Java's classes, it exports its messages, and `warren analyze` makes a
    report of them.
    """
    python, export = str(commands / "python"), folder / "export"
    http = ("--http", "127.0.0.1:0")
    broker = BrokerProcess(folder, *http, python=python, fork=False, environment=outside())
    if java_cache is not None:
        broker.configure("message_log.enabled = true", f"message_log.directory = {export}")
    yield succeed(commands / "warren", "--version", folder=folder).strip()
    sources = succeed(python, "-c", NOT_EXTENSIONS, *extensions, folder=folder).split()
    assert sources == [], f"not imported as compiled: {sources}"
    build = "compiled" if extensions else "pure"
    with broker:
        assert broker.wait_for_event("build")["build"] == build
        yield f"build: {build}, {len(extensions)} modules are extensions"
        client = broker.connect()
        channel = client.channel()
        channel.declare("kept", durable=True)
        channel.confirm()
        for _ in range(2):
            channel.publish("", "kept", BODY, PERSISTENT)
        got = channel.get("kept")
        assert got is not None and got.body == BODY
        yield "AMQP: a message was confirmed and received"
        client.close()
        overview = broker.http().get("/overview").json
        assert overview["object_totals"]["queues"] == 1
        page = HTTPClient(broker.addresses["http"][0], "")
        for path, part in (("/", "<html"), ("/web/uPlot.iife.min.js", "uPlot")):
            response = page.get(path)
            assert response.status == 200 and part in response.text, f"{path}: {response}"
        yield "HTTP: /api/overview and the user interface with its charts"
        status = succeed(commands / "warrenctl", "--data", broker.data, "status", folder=folder)
        assert "Runtime" in status, status
        yield "warrenctl status"
        broker.stop()
    doctor = succeed(commands / "warren", "doctor", "--data", broker.data, folder=folder)
    yield f"warren doctor: {doctor.splitlines()[-1]}"
    if java_cache is not None:
        report = folder / "report"
        analyze = (commands / "warren", "analyze", "--input", export, "--output", report)
        succeed(*analyze, folder=folder, XDG_CACHE_HOME=str(java_cache))
        totals = json.loads((report / "report.json").read_text(encoding="utf-8"))["totals"]
        assert totals["published"] == 2, totals
        yield f"warren analyze: {totals['published']} messages published"
