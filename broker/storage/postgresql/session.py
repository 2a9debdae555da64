"""A session: one connection to the server, on which each call is one transaction in one round trip.

The statements of a call are sent as a pipeline, which the server executes as one transaction: it commits at the end,
unless a statement failed. Several transactions may be sent before the results of the first are received. Parameters and
bytes are sent in the binary format, so nothing is quoted or copied in Python. A call ends with Unreachable when its
time is over or `abandon` was called, as a server that is stopped or cut off does not answer; the session cannot be used
again then.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import psycopg
from psycopg.pq import DiagnosticField, ExecStatus

from .address import Address, one_line
from .errors import Refused, Unreachable
from .operations import Statement

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

Row = list[bytes | None]

LOOK_S = 0.2  # between two checks whether the session was abandoned
# Classes and codes of errors after which another session, maybe of another host, may succeed: connection exceptions,
# a server that stops or starts, and one that has become a standby.
PASSING = ("08", "57P", "25006")
FAILED_SERVER = re.compile(r'connection to server at "([^"]+)"[^\n]*?, port (\d+) failed: (?:FATAL:)?([^\n]+)')
NUMBER = re.compile(r"\[Errno -?\d+\] ")
# A part of the text of a failed login -> the remedy
HINTS = {
    "no password supplied": "give a file with the password (storage.password_file, --password-file), or PGPASSWORD",
    "password authentication failed": "check the password (storage.password_file, --password-file, PGPASSWORD)",
    "no pg_hba.conf entry": "let this machine log in (pg_hba.conf of the server)",
    'role "': "create the role (CREATE ROLE ... LOGIN)",
    'database "': "create the database (CREATE DATABASE)",
    "failed to resolve host": "check the host in the URL",
    "Connection refused": "start the server, or check host and port",
    "certificate verify failed": "check sslrootcert in the URL",
}


class Session:
    """A session. `warning` is the text of a warning that the server sent with the last transaction, or empty."""

    def __init__(self, address: Address, name: str, settings: Sequence[Statement] = ()) -> None:
        """Connect under this name (application_name). Raises Unreachable, Refused."""
        self.warning = ""
        self._abandoned = False
        try:
            self._connection = psycopg.connect(address.conninfo, autocommit=True, application_name=name)
        except psycopg.Error as error:
            raise failed_login(error) from error
        self._libpq = self._connection.pgconn
        self._libpq.notice_handler = self._notice
        self._libpq.nonblocking = 1
        self._libpq.enter_pipeline_mode()
        self._poll = select.poll()
        try:
            # a time limit of the role must not cancel the wait of a commit for a standby
            self.run([("SET statement_timeout = 0", ()), ("SET client_min_messages = warning", ()), *settings], 10.0)
        except (Refused, Unreachable):
            self.close()
            raise

    def run(self, statements: Sequence[Statement], limit_s: float | None, binary: bool = False) -> list[list[Row]]:
        """Execute the statements as one transaction, and return the rows of each.

        Raises Refused after it was rolled back, and Unreachable if its outcome is unknown.
        """
        deadline_s = time.monotonic() + limit_s if limit_s is not None else None
        self.warning = ""
        try:
            self._send(statements, binary)
            self._flush(deadline_s)
            return self._results(deadline_s)
        except psycopg.Error as error:
            raise Unreachable(one_line(error)) from error

    def send(self, *transactions: Sequence[Statement]) -> None:
        """Send transactions, which are executed one after the other; each needs a `receive`. Raises Unreachable."""
        self.warning = ""
        try:
            for statements in transactions:
                self._send(statements, False)
            self._flush(None)
        except psycopg.Error as error:
            raise Unreachable(one_line(error)) from error

    def receive(self) -> None:
        """Wait for the end of the next transaction that was sent. Raises Refused, Unreachable, as `run` does."""
        try:
            self._results(None)
        except psycopg.Error as error:
            raise Unreachable(one_line(error)) from error

    def _send(self, statements: Sequence[Statement], binary: bool) -> None:
        for text, values in statements:
            self._libpq.send_query_params(
                text.encode(),
                [value if isinstance(value, bytes) else str(value).encode() for value in values],
                param_formats=[int(isinstance(value, bytes)) for value in values],
                result_format=int(binary),
            )
        self._libpq.pipeline_sync()

    def _flush(self, deadline_s: float | None) -> None:
        while self._libpq.flush():
            if self._wait(select.POLLIN | select.POLLOUT, deadline_s) & ~select.POLLOUT:
                self._libpq.consume_input()

    def _results(self, deadline_s: float | None) -> list[list[Row]]:
        results: list[list[Row]] = []
        failure: Refused | None = None
        while (result := self._result(deadline_s)) is None or result.status != ExecStatus.PIPELINE_SYNC:
            if result is None:
                continue
            if result.status == ExecStatus.FATAL_ERROR:
                failure = failure or refusal(result)
            elif result.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
                columns = range(result.nfields)
                results.append([[result.get_value(row, at) for at in columns] for row in range(result.ntuples)])
        if failure is not None:
            raise failure
        return results

    def _result(self, deadline_s: float | None) -> PGresult | None:
        while self._libpq.is_busy():
            self._wait(select.POLLIN, deadline_s)
            self._libpq.consume_input()
        result = self._libpq.get_result()
        if result is not None and result.status == ExecStatus.FATAL_ERROR:
            failure = refusal(result)
            if not failure.sqlstate or failure.sqlstate.startswith(PASSING):
                raise Unreachable(str(failure))
        return result

    def _wait(self, events: int, deadline_s: float | None) -> int:
        """Wait until the socket is ready, and return its events."""
        self._poll.register(self._libpq.socket, events)
        while not self._abandoned and (deadline_s is None or time.monotonic() < deadline_s):
            for _, ready in self._poll.poll(LOOK_S * 1000):
                return ready
        raise Unreachable("the server does not answer")

    def _notice(self, result: PGresult) -> None:
        self.warning = str(refusal(result))

    def abandon(self) -> None:
        """End a call that another thread is in, with Unreachable."""
        self._abandoned = True

    def close(self) -> None:
        self._connection.close()


def refusal(result: PGresult) -> Refused:
    sqlstate = (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
    text = result.error_field(DiagnosticField.MESSAGE_PRIMARY) or result.error_message
    return Refused(one_line(text.decode("utf-8", "replace")), sqlstate)


def login_error(text: str) -> str:
    """Return a sentence for libpq's text about a failed login: the reason of each server once, and a remedy."""
    reasons = [f"{host}:{port}: {reason.strip()}" for host, port, reason in FAILED_SERVER.findall(text)]
    hint = next((what for part, what in HINTS.items() if part in text), "")
    return "; ".join([*(dict.fromkeys(reasons) or [NUMBER.sub("", one_line(text))]), *[hint] * bool(hint)])


def failed_login(error: psycopg.Error) -> Refused | Unreachable:
    """Return the error of a login: Refused only if trying again cannot help."""
    sqlstate = error.sqlstate or ""
    text = login_error(str(error))
    if sqlstate.startswith(("28", "3D")) or "authentication failed" in text or "no password supplied" in text:
        return Refused(text, sqlstate)
    return Unreachable(text)
