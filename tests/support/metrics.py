"""Scrapes of the metrics of a broker in this process, through the whole application and without a socket."""

import asyncio
import dataclasses
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from warren.plugins.prometheus.endpoint import MetricsEndpoint
from warren.plugins.prometheus.state import MetricsState

from .http import Api, Response, asgi_scope, call_application
from .in_process import InProcessPeer


class Samples:
    """The samples of a scrape. Two with the same name and labels are an error, as they are to Prometheus."""

    def __init__(self, text: str) -> None:
        self.kinds: dict[str, str] = {}
        self._values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(text):
            self.kinds[family.name + ("_total" if family.type == "counter" else "")] = family.type
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                assert key not in self._values, key
                self._values[key] = sample.value

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self._values}

    def value(self, name: str, /, **labels: str) -> float:
        """The value of the sample with exactly these labels."""
        return self._values[name, frozenset(labels.items())]

    def labels(self, name: str) -> list[dict[str, str]]:
        return [dict(labels) for each, labels in self._values if each == name]

    def sum(self, name: str) -> float:
        return sum(value for (each, _), value in self._values.items() if each == name)

    def counters(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """The values of all counters, by name and labels."""
        return {key: value for key, value in self._values.items() if self.kinds.get(key[0]) == "counter"}


class Scraper:
    """Scrapes of a new broker, `peer`, with these keys of `prometheus.*`."""

    def __init__(self, **keys: Any) -> None:
        self.peer = InProcessPeer()
        self.peer.settings(prometheus=dataclasses.replace(self.peer.config.prometheus, **keys))
        self.api = Api(self.peer)
        self.host = self.api.host
        self.state = MetricsState(self.host)
        self._application = MetricsEndpoint(
            self.state, self.state.path, guarded=self.state.config.authentication_enabled
        )

    def get(self, path: str = "/metrics", method: str = "GET", user: str | None = None, **more: Any) -> Response:
        scope, encoded = asgi_scope(method, path, user=user, **more)
        scope["raw_path"] = path.partition("?")[0].encode()
        response = asyncio.run(call_application(self._application, scope, encoded))
        self.peer.settle()
        return response

    def scrape(self, path: str = "/metrics") -> Samples:
        response = self.get(path)
        assert response.status == 200, response.body
        return Samples(response.body.decode())

    def close(self) -> None:
        self.api.close()
