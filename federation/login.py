"""aio-pika's plain connection, over a socket that is there already, with what it lacks of AMQP's handshake.

It knows neither address nor password by its URL, so that nothing it says can show them: who logs in, where to, and what
is agreed on comes from the Endpoint. Its loggers are silent; what is worth a line is said by the link.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import aio_pika
import aiormq
from aio_pika.abc import UnderlayConnection
from aio_pika.tools import OneShotCallback
from aiormq.connection import FrameReceiver, TransportFactory
from pamqp import commands
from pamqp.base import Frame
from pamqp.frame import FrameTypes
from yarl import URL

from broker.plugin import Table

from .cutter import OVERHEAD
from .fault import LinkFault
from .line import Line
from .uris import Endpoint

for _name in ("aio_pika", "aiormq", "pamqp"):
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

USUAL = ("plain", "amqplain")  # mechanisms, where the URI names none
NO_LIMIT = 0
FRAME_LIMIT = 128 << 20  # octets of one frame, where both sides set no limit


class Login:
    """What connection.start-ok says of who we are: the mechanism's name, and its response."""

    def __init__(self, name: str, response: bytes) -> None:
        self.name = name
        self._response = response

    def value(self, connection: object) -> Login:
        """As aiormq asks a mechanism for its maker."""
        return self

    def marshal(self) -> Octets:
        return Octets(self._response)


class Octets(str):
    """A long string that need not be text: pamqp encodes it by `encode`."""

    __slots__ = ("_octets",)

    def __new__(cls, octets: bytes) -> Octets:
        own = super().__new__(cls, "")
        own._octets = octets
        return own

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return self._octets
