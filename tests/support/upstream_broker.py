"""A broker on the loop of the test, connections of federation to it, and a check that they leave nothing behind."""

import asyncio
import gc
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, cast

import pytest
import uvloop

from tests.support.in_process import new_host
from tests.support.polling import until_async
from warren.broker.amqp.field_table import Table, Value
from warren.broker.app.build import build_node, build_settings
from warren.broker.app.open_storage import Store
from warren.broker.config import Config
from warren.broker.core.access.users import User
from warren.broker.net.server import Server
from warren.broker.net.tls import TLS, TLSOptions
from warren.broker.runtime.clock import LoopClock
from warren.broker.session.connection import Connection
from warren.federation.upstream.connection import UpstreamConnection, dial
from warren.federation.upstream.delivery_parser import Delivery
from warren.federation.upstream.endpoint import Endpoint, parse_endpoint
from warren.federation.upstream.errors import LinkError

NAME = "Federation link (upstream: up, policy: p)"
PATIENCE_S = 60.0
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [uvloop.new_event_loop, asyncio.new_event_loop]


def typed(**fields: Value) -> Table:
    return Table.EMPTY.with_items([(name.replace("_", "-"), value) for name, value in fields.items()])


class UpstreamBroker:
    """A broker on the running loop. `log` has what it reported, `deliveries` what its dialled connections received."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str, dict[str, object]]] = []
        self.config = Config(memory=True, auth_mechanisms=("PLAIN", "AMQPLAIN", "EXTERNAL"))
        self.node = build_node(self.config, LoopClock(asyncio.get_running_loop()), Store(self.config))
        self.server = Server(self.node, build_settings(self.config), PATIENCE_S, self._report)
        self.host = new_host(self.node, self.config, self.server)
        self.deliveries: list[Delivery] = []
        self.arrived = asyncio.Event()
        self.port = 0

    def _report(self, event: str, level: str, fields: dict[str, object]) -> None:
        self.log.append((event, level, fields))

    def take(self, deliveries: list[Delivery]) -> None:
        self.deliveries += deliveries
        self.arrived.set()

    async def taken(self, count: int) -> list[Delivery]:
        while len(self.deliveries) < count:
            self.arrived.clear()
            await asyncio.wait_for(self.arrived.wait(), PATIENCE_S)
        return self.deliveries

    def publish(self, queue: str, *bodies: bytes) -> None:
        inflow = self.host.inflow("/", "test")
        for body in bodies:
            frames = b"\x03\x00\x01" + len(body).to_bytes(4, "big") + body + b"\xce"
            inflow.publish("", queue, [(b"\x10\x00\x02", len(body), frames)])
        inflow.flush()
        inflow.close()

    def at(self, query: str = "", login: str = "guest:guest@", vhost: str = "%2f") -> Endpoint:
        return parse_endpoint(f"amqp://{login}127.0.0.1:{self.port}/{vhost}?{query}")

    def inside(self, login: str = "") -> Endpoint:
        return parse_endpoint(f"amqp://{login}/%2f" if login else "amqp:///%2f")

    async def dial(self, one: Endpoint | None = None, user: User | None = None) -> UpstreamConnection:
        one = one or self.at()
        return await dial(self.host, one, one.vhost if one.vhost is not None else "/", NAME, self.take, user)

    async def fault(self, one: Endpoint, user: User | None = None) -> LinkError:
        with pytest.raises(LinkError) as caught:
            await self.dial(one, user)
        return caught.value

    def connection(self) -> Connection:
        [connection] = self.server.connections.values()
        return connection


@asynccontextmanager
async def running(tls: TLSOptions | None = None) -> AsyncIterator[UpstreamBroker]:
    """Run a broker; at the end, expect that no connection, no task and no complaint of asyncio is left."""
    site = UpstreamBroker()
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    listener = TLS(tls, site._report) if tls is not None else None
    site.port = int((await site.server.listen("127.0.0.1", 0, listener))[0].rpartition(":")[2])
    try:
        yield site
        await until_async(lambda: not site.server.connections)
    finally:
        await site.server.stop("shutdown")
    await until_async(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    gc.collect()
    await asyncio.sleep(0)
    assert not complaints


def on_each_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test on each kind of loop, with a broker if it has an argument `site`."""
    parameters = inspect.signature(test).parameters

    @wraps(test)
    def run_on(loop: Callable[[], asyncio.AbstractEventLoop], **arguments: object) -> None:
        async def work() -> None:
            if "site" not in parameters:
                return await test(**arguments)
            async with running() as site:
                await test(site, **arguments)

        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(work())

    others = [parameter for name, parameter in parameters.items() if name != "site"]
    loop = inspect.Parameter("loop", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run_on.__signature__ = inspect.Signature([loop, *others])  # type: ignore[attr-defined]
    return cast("Callable[..., None]", pytest.mark.parametrize("loop", LOOPS, ids=["uvloop", "asyncio"])(run_on))
