"""Where the tests of operators' clients find an HTTP API: at a broker that they start, or at a peer.

`WARREN_API=HOST:PORT` names another's API, with `WARREN_PEER` for its AMQP (user guest), which is how the tests are
checked against RabbitMQ itself.
"""

import base64
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque

from tests.support.checkout import ROOT, installed

READY_WITHIN_S = 60
STOP_WITHIN_S = 60


class Reply:
    """`body` is what the JSON says, or the octets where it is none."""

    def __init__(self, status, headers, content):
        self.status = status
        self.headers = headers
        self.body = json.loads(content) if headers.get("content-type", "").startswith("application/json") else content

    def __repr__(self):
        return f"{self.status} {self.body!r}"


class API:
    """Requests as guest, each on a connection of its own."""

    def __init__(self, host, port, amqp):
        self.host = host
        self.port = port
        self.amqp = amqp

    @property
    def url(self):
        return f"http://guest:guest@{self.host}:{self.port}/api/"

    def call(self, method, path, body=None, user="guest", password="guest"):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            login = base64.b64encode(f"{user}:{password}".encode()).decode()
            headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
            connection.request(method, "/api" + path, None if body is None else json.dumps(body), headers)
            reply = connection.getresponse()
            found = {name.lower(): value for name, value in reply.getheaders()}
            return Reply(reply.status, found, reply.read())
        finally:
            connection.close()

    def get(self, path):
        reply = self.call("GET", path)
        assert reply.status == 200, (path, reply)
        return reply.body

    def put(self, path, body=None):
        reply = self.call("PUT", path, {} if body is None else body)
        assert reply.status in (201, 204), (path, reply)
        return reply.status

    def delete(self, path):
        """Gone afterwards, as clients see it: what is not there is fine."""
        status = self.call("DELETE", path).status
        assert status in (204, 404), (path, status)
        return status


class BrokerWithAPI:
    """A broker of ours with its API on a free port, and statistics every half second."""

    def __init__(self, folder):
        configuration = folder / "rabbitmq.conf"
        configuration.write_text("collect_statistics_interval = 500\nwarren.memory = true\n")
        command = [sys.executable, "-m", "warren.broker.cli", "serve", "--config", str(configuration)]
        command += ["--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed(folder / "installed")), str(ROOT)])}
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.lines = deque(maxlen=100)
        self.ready = None
        self._told = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._told.wait(READY_WITHIN_S)
        if self.ready is None:
            self.process.kill()
            raise AssertionError("the broker did not become ready:\n" + "".join(self.lines))

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if '"event": "ready"' in line:
                self.ready = json.loads(line)
                self._told.set()
        self._told.set()

    def api(self):
        host, _, port = self.ready["http"][0].rpartition(":")
        return API(host, int(port), self.ready["amqp"][0])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(STOP_WITHIN_S)
        finally:
            self.process.kill()
            self._reader.join()
            self.process.stderr.close()
        assert status == 0, "".join(self.lines)
