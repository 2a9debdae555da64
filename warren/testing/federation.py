"""The federation of a virtual host of the tests with others, set by the HTTP API of its broker."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from .http_api import HTTPError
from .vhost import BrokerError

if TYPE_CHECKING:
    from .vhost import VHost

LINKS_S = 60.0  # the longest wait for links, on a machine that others use as well
LOOK_S = 0.02  # between two looks at the links
RECONNECT_S = 0.2  # the delay of a link after a failure
UPSTREAM, UPSTREAM_SET = "federation-upstream", "federation-upstream-set"

Kind = Literal["exchanges", "queues"]


class Federation:
    """The federated exchanges and queues of one virtual host, and their links."""

    def __init__(self, vhost: VHost) -> None:
        self._vhost = vhost
        self._upstreams: dict[tuple[Kind, str], list[str]] = {}  # their names by what is federated

    def add(self, kind: Kind, name: str, upstreams: Iterable[VHost], parameters: Mapping[str, object]) -> None:
        """Federate an exchange or a queue with those of the same name in the `upstreams`. Raises BrokerError."""
        broker, vhost = self._vhost.broker, self._vhost.name
        settings = {key.replace("_", "-"): value for key, value in parameters.items()}
        whole = f"{kind}-{name}"
        names = self._upstreams.setdefault((kind, name), [])
        try:
            for upstream in upstreams:
                names.append(f"{whole}-{len(names) + 1}")
                value = {"reconnect-delay": RECONNECT_S, "uri": upstream.broker.uri_for_links(upstream, self._vhost)}
                broker.api.call("PUT", "parameters", UPSTREAM, vhost, names[-1], body={"value": value | settings})
            chosen = [{"upstream": each} for each in names]
            broker.api.call("PUT", "parameters", UPSTREAM_SET, vhost, whole, body={"value": chosen})
            policy = {"pattern": f"^{re.escape(name)}$", "apply-to": kind, "definition": {UPSTREAM_SET: whole}}
            broker.api.call("PUT", "policies", vhost, whole, body=policy)
        except HTTPError as error:
            raise broker.refused("federation", error) from None

    def wait(self) -> None:
        """Return when all links of exchanges and queues that are there run. Raises BrokerError."""
        until_s = time.monotonic() + LINKS_S
        while waiting := self._waiting():
            if time.monotonic() > until_s:
                raise BrokerError(f"links do not run after {LINKS_S:.0f} s: {'; '.join(waiting)}")
            time.sleep(LOOK_S)

    def _waiting(self) -> list[str]:
        """Return a text for each link that does not run, of objects that are there."""
        api, vhost = self._vhost.broker.api, self._vhost.name
        try:
            found = {row["upstream"]: row for row in api.call("GET", "federation-links", vhost)}
            there = [key for key in self._upstreams if api.has(key[0], vhost, key[1])]
        except HTTPError as error:
            raise self._vhost.broker.refused("the status of federation links", error) from None
        waiting = []
        for upstream in (name for key in there for name in self._upstreams[key]):
            row = found.get(upstream, {"status": "absent"})
            if row["status"] != "running":
                waiting.append(f"{upstream}: {row['status']} {row.get('error', '')}".strip())
        return waiting
