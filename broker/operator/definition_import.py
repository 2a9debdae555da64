"""Imports of definitions into a running broker, in slices between turns of the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from ..amqp.errors import AMQPError, NotNow, OperatorError
from ..core.definitions.importer import PERMITS_ALL, DefinitionsImport, Permits, Wait, begin_import, end_import
from ..core.definitions.release import release
from ..core.node.node import Node
from ..runtime.supervisor import Supervisor

Decoded = tuple[object, str]
"""A document, and the digest of its text (`core.metadata.unfinished_import`)."""
WAITING_BYTES = 64 << 20  # of texts that are imported or wait for it; one longer text is taken alone
SLICE_S = 0.003  # between two turns of the loop; a document that takes no longer is imported in one turn


@dataclass(slots=True, eq=False)
class Undecoded:
    """A document to be decoded in a thread, with the bytes of its text. `decode` may raise an OperatorError."""

    decode: Callable[[], Decoded]
    size: int


class Imports:
    """The imports and checks of one node, one at a time.

    A document is decoded when its turn comes, and freed before the next one is: decoded, it takes many times the bytes
    of its text. It is checked as a whole before any of it is imported. An import that has begun is completed even if
    its client disconnects, or memory gets low meanwhile. `check_alarms` raises NotNow if it is low before one with new
    objects begins. `acting` is a context in which changes are attributed to a user. `under_way` is True while a part of
    a document is imported.
    """

    def __init__(
        self,
        node: Node,
        supervisor: Supervisor,
        acting: Callable[[str], AbstractContextManager[None]],
        check_alarms: Callable[[], None],
    ) -> None:
        self._node = node
        self._supervisor = supervisor
        self._acting = acting
        self._check_alarms = check_alarms
        self._lock = asyncio.Lock()
        self._waiting_bytes = 0
        self._freeing = asyncio.Lock()  # of one document at a time, or their slices would be one long turn
        self.under_way = False

    def has_document(self) -> bool:
        """Whether a document is decoded, imported, checked or freed: it may have millions of objects."""
        return self._lock.locked()

    async def run(
        self,
        document: object,
        vhost: str | None,
        actor: str,
        leave_out: bool = False,
        digest: str = "",
        check_actor: Callable[[], None] = lambda: None,
        permits: Permits = PERMITS_ALL,
    ) -> DefinitionsImport:
        """Import all or nothing, and return the import with its warnings. The document is emptied.

        With `leave_out` entries with an error are left out, and those that need them. `digest` is that of the text
        (`core.metadata.unfinished_import`); a document that is Undecoded has its own. `check_actor` raises an
        OperatorError if the user lost the right while other imports were done. Raises Invalid, Unknown, NotNow while
        memory is low or too many texts wait, and the errors of the decoding, of these checks and of `permits`.
        """
        return await self._work(Import(document, vhost, leave_out, False, digest, check_actor, permits), actor)

    async def check(
        self,
        document: object,
        vhost: str | None,
        leave_out: bool = False,
        check_actor: Callable[[], None] = lambda: None,
        permits: Permits = PERMITS_ALL,
    ) -> DefinitionsImport:
        """Check a document without importing it, and return the import with its warnings.

        The document is emptied. Raises the errors of `run`.
        """
        return await self._work(Import(document, vhost, leave_out, True, "", check_actor, permits), "")

    async def _release(self, steps: Iterator[None]) -> None:
        async with self._freeing:
            await in_turns(steps)

    async def _work(self, work: Import, actor: str) -> DefinitionsImport:
        size = work.document.size if isinstance(work.document, Undecoded) else 0
        if size and self._waiting_bytes and self._waiting_bytes + size > WAITING_BYTES:
            raise NotNow("too many bytes of definitions wait to be imported or checked")
        task = self._supervisor.run("definitions_import", self._perform(work, actor))
        self._waiting_bytes += size
        task.add_done_callback(lambda _: self._ended(size))  # even if the task has not begun
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            work.is_left = True
            if not work.must_end:
                task.cancel()
            raise
        if work.error is not None:
            error, work.error = work.error, None
            try:
                raise error
            finally:
                del error  # it has this frame in its traceback
        assert work.plan is not None
        work.plan.check_failures()
        return work.plan

    def _ended(self, size: int) -> None:
        self._waiting_bytes -= size

    async def _perform(self, work: Import, actor: str) -> None:
        try:
            async with self._lock:
                try:
                    await self._decode(work)
                    if not work.is_left:
                        await self._plan(work, actor)
                except (OperatorError, AMQPError) as error:
                    # Without its traceback and context: their frames have the plan, the document and the error itself.
                    work.error = error.with_traceback(None)
                    error.__context__ = None
                finally:
                    await self._free(work)
        finally:  # also if it was cancelled while it waited
            await self._free(work)

    async def _free(self, work: Import) -> None:
        work.must_end = True
        await self._release(work.release())

    async def _decode(self, work: Import) -> None:
        """Decode the document of an import, to the end even if its client leaves, as nothing stops the thread."""
        if isinstance(work.document, Undecoded):
            work.must_end = True
            work.document, work.digest = await asyncio.to_thread(work.document.decode)
            work.must_end = False
            work.check_actor()

    async def _plan(self, work: Import, actor: str) -> None:
        """Check a document, and import it unless it is to be checked only."""
        plan = DefinitionsImport(self._node, work.document, work.vhost, work.leave_out, work.permits)
        work.plan = plan
        await in_turns(plan.check())
        if not work.checked_only:
            work.check_actor()
            if plan.declares:
                self._check_alarms()
            await self._carry_out(work, plan, actor)

    async def _carry_out(self, work: Import, plan: DefinitionsImport, actor: str) -> None:
        """Carry an import out. If it takes several turns, a mark is stored until its end: the node may crash before."""
        work.must_end = True
        begun_s = time.perf_counter()

        def steps() -> Iterator[Wait | None]:
            for wait in plan.carry_out():
                if not self.under_way and (wait is not None or time.perf_counter() - begun_s > SLICE_S / 2):
                    self.under_way = True
                    begin_import(self._node, work.digest, work.vhost)
                yield wait
            end_import(self._node, work.digest, plan)

        try:
            await in_turns(steps(), lambda: self._acting(actor))
        finally:
            self.under_way = False


@dataclass(slots=True, eq=False)
class Import:
    """One import: `is_left` once its client has gone, `error` if it was refused.

    `must_end` is True while it is decoded or freed, and once something may have changed.
    """

    document: object
    vhost: str | None
    leave_out: bool = False
    checked_only: bool = False
    digest: str = ""
    check_actor: Callable[[], None] = lambda: None
    permits: Permits = PERMITS_ALL
    plan: DefinitionsImport | None = None
    must_end: bool = False
    is_left: bool = False
    error: OperatorError | AMQPError | None = None

    def release(self) -> Iterator[None]:
        """Free the document and the plan in steps. Steps of the plan refer to the plan, so it does not free itself."""
        yield from release(self.document)
        if self.plan is not None:
            yield from self.plan.release()


async def in_turns(
    steps: Iterable[Wait | None], context: Callable[[], AbstractContextManager[None]] = nullcontext
) -> None:
    """Do all steps in slices of SLICE_S, each in a turn of the loop and a context of its own, and wait as they ask."""
    iterator = iter(steps)
    while True:
        with context():
            until = time.perf_counter() + SLICE_S
            for wait in iterator:
                if wait is not None or time.perf_counter() >= until:
                    break
            else:
                return
        if wait is None:
            await asyncio.sleep(0)
        else:
            over = asyncio.Event()
            wait(over.set)
            await over.wait()
