"""Objects of every kind, for tests that open every page."""

import re
from collections.abc import Mapping
from urllib.parse import quote

from tests.support.amqp_client import Channel
from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI
from tests.support.polling import until

from .reports import write_report

ROUTES = "import('/pages/index.js').then(({ PAGES }) => PAGES.map((page) => page.route))"
MESSAGES = 3
REPORT = "night"
LIMITS = {"max-connections": 100, "max-queues": 1000}


def encode(*segments: str) -> str:
    return "/".join(quote(segment, safe="") for segment in segments)


class Objects:
    """One object of each kind, all named `name`, in a virtual host of that name.

    A queue has messages, a consumer and bindings; an exchange federates with one of another virtual host of the same
    broker; client properties, tags, arguments, headers and bodies have the name as their values.
    """

    def __init__(self, broker: BrokerProcess, name: str) -> None:
        self.name = name
        self._broker = broker
        self._http = broker.http()
        self.properties = {"connection_name": name, "product": name, "version": name, "platform": name, name: name}
        self._declare()
        self._channel = self._connect()
        self._federate()
        write_report(broker.folder, REPORT, name)

    def _request(self, method: str, *segments: str, body: object = None) -> None:
        response = self._http.request(method, f"/{encode(*segments)}", {} if body is None else body)
        assert response.status < 300, (method, segments, response)

    def _put(self, *segments: str, body: object = None) -> None:
        self._request("PUT", *segments, body=body)

    def _declare(self) -> None:
        name, tag = self.name, self.name.replace(",", "")
        self._put("vhosts", name, body={"description": name, "tags": tag, "default_queue_type": "classic"})
        self.login = name.replace(":", "")  # HTTP cannot transmit a user's name with a colon
        for user in (name, self.login):
            self._put("users", user, body={"password": name, "tags": f"management,{tag}"})
        for user in (name, self.login, "guest"):
            self._put("permissions", name, user, body={"configure": ".*", "write": ".*", "read": ".*"})
        self._put("topic-permissions", name, name, body={"exchange": name, "write": ".*", "read": quote(name)})
        for limit, value in LIMITS.items():
            self._put("vhost-limits", name, limit, body={"value": value})
            self._put("user-limits", name, limit.replace("queues", "channels"), body={"value": value})
        for way, keys in (("policies", {"message-ttl": 10**9}), ("operator-policies", {"max-length": 1000})):
            body = {"pattern": f"^{re.escape(name)}$", "definition": keys, "apply-to": "queues"}
            self._put(way, name, name, body=body)
        self._put("global-parameters", name, body={"value": {name: name}})
        arguments = {"alternate-exchange": name, name: name}
        self._put("exchanges", name, name, body={"type": "topic", "arguments": arguments})
        arguments = {"x-dead-letter-exchange": name, "x-dead-letter-routing-key": name, name: name}
        for queue in (name, "empty"):
            self._put("queues", name, queue, body={"durable": True, "arguments": arguments})
        binding = {"routing_key": name, "arguments": {name: name}}
        self._request("POST", "bindings", name, "e", name, "q", name, body=binding)
        self._request("POST", "bindings", name, "e", name, "e", name, body=binding)

    def _connect(self) -> Channel:
        """A connection of the user, whose channel has consumed one message of several."""
        client = self._broker.connect(user=self.name, password=self.name, vhost=self.name, properties=self.properties)
        channel = client.channel()
        channel.qos(1)
        for _ in range(MESSAGES):
            self._publish(channel)
        channel.consume(self.name, consumer_tag=self.name)
        channel.delivery()
        return channel

    def _publish(self, channel: Channel) -> None:
        properties = {"headers": {self.name: self.name}, "message_id": self.name, "type": self.name}
        channel.publish(self.name, self.name, self.name.encode(), properties)

    def publish(self) -> None:
        """Publish one more message, which is routed to the queue."""
        self._publish(self._channel)

    def _federate(self) -> None:
        """Federate the exchange with one of the virtual host `/`; with long names the link is refused."""
        name, upstream = self.name, {"uri": f"amqp://127.0.0.1:{self._broker.port}/%2f", "exchange": "amq.topic"}
        self._put("parameters", "federation-upstream", name, name, body={"value": upstream})
        members = {"value": [{"upstream": name}]}
        self._put("parameters", "federation-upstream-set", name, name, body=members)
        definition = {"federation-upstream-set": name}
        policy = {"pattern": f"^{re.escape(name)}$", "definition": definition, "apply-to": "exchanges"}
        self._put("policies", name, "federate", body=policy)
        until(lambda: self._links() not in ([], ["starting"]), "a link")

    def _links(self) -> list[str]:
        return [row["status"] for row in self._http.get(f"/federation-links/{encode(self.name)}").json]

    @property
    def link(self) -> str:
        """The identity of the federation link."""
        return str(self._http.get(f"/federation-links/{encode(self.name)}").json[0]["id"])

    @property
    def channel(self) -> str:
        channels = [one for one in self._http.get("/channels").json if one["user"] == self.name]
        return next(str(one["name"]) for one in channels if one["consumer_count"])

    def addresses(self, ui: UI) -> list[str]:
        """The address of each page; the pages of objects are of these objects."""
        channel = self.channel
        values: Mapping[str, Mapping[str, str]] = {
            "channels/:name": {"name": channel}, "connections/:name": {"name": channel.rpartition(" (")[0]},
            "nodes/:node": {"node": "warren@test"}, "reports/:name": {"name": REPORT},
            "documents/:name": {"name": "start"},
            "federation/links/:vhost/:id": {"id": self.link},
        }  # fmt: skip
        names = {"vhost": self.name, "name": self.name}
        found = []
        for route in ui.page.evaluate(ROUTES):
            given = {**names, **values.get(route, {})}
            found.append(encode(*(given[part[1:]] if part[:1] == ":" else part for part in route.split("/"))))
        return found


UNFOLD = "document.querySelectorAll('details.section').forEach((one) => { one.open = true })"


def open_page(ui: UI, address: str) -> None:
    """Open a page and unfold its sections."""
    ui.open(address).page.evaluate(UNFOLD)
