"""Uvicorn's messages in the broker's log."""

import asyncio
import logging
import sys
from typing import cast

from warren.broker.plugin import Host
from warren.plugins.http.server import UvicornLogHandler


class Log:
    """The part of a host that the handler uses."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, object]]] = []

    def now_ms(self) -> int:
        return 0

    def report(self, event: str, level: str, fields: dict[str, object]) -> None:
        self.lines.append((event, level, fields))


def test_a_request_that_is_cancelled_at_the_end_is_no_error_of_the_application() -> None:
    log = Log()
    logger = logging.Logger("uvicorn.error")
    logger.addHandler(UvicornLogHandler(cast(Host, log)))
    failure = ValueError()
    for error in (asyncio.CancelledError(), failure):
        try:
            raise error
        except (asyncio.CancelledError, ValueError):
            logger.error("Exception in ASGI application\n", exc_info=sys.exc_info())
    assert log.lines == [("http", "error", {"what": "Exception in ASGI application\n", "exc_info": failure})]
