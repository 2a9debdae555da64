"""The HTTP API for the tests of operators' clients: that of a broker they start, or of a peer.

`WARREN_API=HOST:PORT` names a peer's API and `WARREN_PEER` its AMQP listener (user guest); so the tests are checked
against RabbitMQ itself.
"""

from tests.support.broker_process import ANY_PORT, BrokerProcess
from tests.support.http import HTTPClient


class Reply:
    """A response; `body` is its JSON document, or bytes if it is not JSON."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        is_json = response.headers.get("content-type", "").startswith("application/json")
        self.body = response.json if is_json else response.body

    def __repr__(self):
        return f"{self.status} {self.body!r}"


class API:
    """Requests as guest, each on its own connection."""

    def __init__(self, host, port, amqp):
        self.host = host
        self.port = port
        self.amqp = amqp

    @property
    def url(self):
        return f"http://guest:guest@{self.host}:{self.port}/api/"

    def call(self, method, path, body=None, user="guest", password="guest"):
        headers = {"Content-Type": "application/json"}
        return Reply(HTTPClient(f"{self.host}:{self.port}").request(method, path, body, user, password, headers))

    def get(self, path):
        reply = self.call("GET", path)
        assert reply.status == 200, (path, reply)
        return reply.body

    def put(self, path, body=None):
        reply = self.call("PUT", path, {} if body is None else body)
        assert reply.status in (201, 204), (path, reply)
        return reply.status

    def delete(self, path):
        """Delete as clients do: a missing object is no error."""
        status = self.call("DELETE", path).status
        assert status in (204, 404), (path, status)
        return status


def broker_with_api(folder):
    """A Warren with its API on a free port, and statistics every half second."""
    broker = BrokerProcess(folder, "--http", ANY_PORT, memory=True)
    broker.configure("collect_statistics_interval = 500")
    return broker


def api_of(broker):
    host, _, port = broker.addresses["http"][0].rpartition(":")
    return API(host, int(port), broker.addresses["amqp"][0])
