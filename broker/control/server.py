"""The node's end of the control socket: one coroutine for each `warrenctl`, whose requests run in the loop."""

from __future__ import annotations

import asyncio
import inspect
import json
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from ..amqp.errors import AMQPError, OperatorError
from ..hosting.definition_import import in_turns
from . import place
from .answers import SOFTWARE, TIMEOUT, UNAVAILABLE, Refused, Report, Rows, Text
from .call import Call, Daemon
from .streams import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SLICE = 100  # rows between two turns of the loop
DURABLE_WAIT_S = 30.0  # a full disk keeps nobody waiting for longer


class Control:
    """Open from `open` to `close`, in the folder of the data, or in a new one where nothing is stored."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._folder: Path | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> dict[str, list[str]]:
        """The path of the socket, as `ready` tells it. A broker that can have none runs without, and the log tells."""
        config = self._daemon.host.config
        try:
            folder = Path(mkdtemp(prefix="warren-") if config.memory else config.data_dir)
            self._server = await asyncio.start_unix_server(self._accepted, sock=place.bind(folder))
        except OSError as error:
            self._daemon.host.report("no_control_socket", "warning", {"reason": error.strerror or str(error)})
            return {}
        self._folder = folder
        return {"control": [str(folder / place.NAME)]}

    def close(self) -> None:
        """Whoever waits for the end of the node sees the end of the socket."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._folder is not None:
            (self._folder / place.NAME).unlink(missing_ok=True)
            if self._daemon.host.config.memory:
                self._folder.rmdir()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._daemon.host.supervisor.run("control_connection", self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the client leaves."""
        try:
            writer.write(place.framed({"node": self._daemon.host.node.name}))
            while True:
                size = place.LENGTH.unpack(await reader.readexactly(place.LENGTH.size))[0]
                if size > place.FRAME_LIMIT:
                    return
                await self._answer(json.loads(await reader.readexactly(size)), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            return  # it has gone, or speaks something else
        finally:
            writer.close()

    async def _answer(
        self, request: dict[str, object], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await self._perform(request, reader, writer)
        except Refused as error:
            last: dict[str, object] = {"error": error.text, "status": error.status, "bare": error.bare}
            last["argument"] = error.argument
        except (OperatorError, AMQPError) as error:
            last = {"error": error.text, "status": UNAVAILABLE}
        except ConnectionError:
            raise  # it has gone
        except TimeoutError:
            last = {"error": "it is not stored yet", "status": TIMEOUT}
        except Exception as error:  # a bug of ours: the operator is told, and the node goes on
            self._daemon.host.report("internal_error", "error", {"exc_info": error})
            last = {"error": f"internal error: {type(error).__name__}", "status": SOFTWARE}
        else:
            last = {"end": True}
        writer.write(place.framed(last))
        await writer.drain()

    async def _perform(
        self, request: dict[str, object], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        from .commands import COMMANDS

        call = self._call(request)
        handler = COMMANDS.get(call.command)
        if handler is None:
            raise Refused(UNAVAILABLE, f"this node does not know the command {call.command}")
        with self._daemon.acting():
            answer = handler(call)
        if isinstance(answer, Stream):
            await self._write_lines(answer, reader, writer)
            return
        if inspect.isawaitable(answer):
            answer = await answer
        await self._stored()
        if isinstance(answer, Rows):
            writer.write(place.framed({"columns": answer.columns}))
            await self._write_rows(iter(answer.rows), writer)
        elif isinstance(answer, Report):
            writer.write(place.framed({"value": answer.value, "text": answer.text}))
        elif isinstance(answer, Text):
            await self._write_text(answer, writer)
        elif answer is not None:
            writer.write(place.framed({"value": answer}))

    def _call(self, request: dict[str, object]) -> Call:
        """Raises ValueError."""
        command, arguments, options = request.get("command"), request.get("arguments"), request.get("options")
        if not isinstance(command, str) or not isinstance(arguments, list) or not isinstance(options, dict):
            raise ValueError("no request")
        return Call(self._daemon, command, [str(one) for one in arguments], options)

    async def _stored(self) -> None:
        """What was done so far is on the disk. Raises TimeoutError."""
        async with asyncio.timeout(DURABLE_WAIT_S):
            await self._daemon.host.stored()

    async def _write_rows(self, rows: Iterator[Sequence[object]], writer: asyncio.StreamWriter) -> None:
        """In slices: a long list holds nobody up."""
        while piece := list(islice(rows, SLICE)):
            writer.write(place.framed({"rows": piece}))
            await writer.drain()
            await asyncio.sleep(0)

    async def _write_text(self, answer: Text, writer: asyncio.StreamWriter) -> None:
        """One frame, which is made in slices before it is written, as its length comes first."""
        pieces = [b'{"value":']
        await in_turns(map(pieces.append, answer.pieces))
        pieces.append(b"}")
        writer.write(place.LENGTH.pack(sum(map(len, pieces))))
        for start in range(0, len(pieces), SLICE):
            writer.write(b"".join(pieces[start : start + SLICE]))
            await writer.drain()
            await asyncio.sleep(0)

    async def _write_lines(self, stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the stream ends, or whoever reads leaves, which alone ends what is read meanwhile."""

        async def end_with_reader() -> None:
            try:
                await reader.read(1)
            except ConnectionError:
                pass  # it has gone
            stream.end()

        left = self._daemon.host.supervisor.run("control_stream", end_with_reader())
        writer.write(place.framed({"lines": []}))  # that it has begun
        try:
            async with aclosing(stream.lines()) as pieces:
                async for lines in pieces:
                    writer.write(place.framed({"lines": lines}))
                    await writer.drain()
        finally:
            left.cancel()
