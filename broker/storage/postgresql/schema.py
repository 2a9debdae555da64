"""The schema of a store: its tables, their version, and the check of both.

    store    version, id           one row; `id` identifies the store on any server
    owner    epoch, commits        one row; see `ownership` and `transactions`
    beat     epoch, node, beaten,  one row; the time of the owner's last heartbeat, the start of the server on which the
             server, confirmed     owner last took its lock, and the last certain transaction
    checkpoint, records, segment_NUMBER    see `operations`

To change the tables, add a step to the end of _STEPS and never change one that was released. `warren store init` takes
the steps that a store lacks; a broker refuses a store of any other version than its own.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from ..errors import Missing, StorageFault, Unavailable
from .database import BARRIER
from .errors import Refused, Unreachable
from .operations import Statement, quoted

if TYPE_CHECKING:
    from .session import Session

_STEPS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE {schema}.store (version int NOT NULL, id text NOT NULL)",
        # with room for the next version of the row in the same page, so that no index and no vacuum has to follow
        "CREATE TABLE {schema}.owner (epoch bigint NOT NULL, commits bigint NOT NULL) WITH (fillfactor = 10)",
        "INSERT INTO {schema}.owner VALUES (0, 0)",
        "CREATE TABLE {schema}.beat (epoch bigint NOT NULL, node text NOT NULL, beaten timestamptz, server timestamptz,"
        " confirmed bigint NOT NULL) WITH (fillfactor = 10)",
        "INSERT INTO {schema}.beat VALUES (0, '', NULL, NULL, 0)",
        'CREATE TABLE {schema}.checkpoint ("offset" bigint PRIMARY KEY, data bytea NOT NULL)',
        "CREATE TABLE {schema}.records (kind text NOT NULL, key bytea NOT NULL, vhost text NOT NULL,"
        " record text NOT NULL, position bigint GENERATED ALWAYS AS IDENTITY, PRIMARY KEY (kind, key))",
    ),
)
VERSION = len(_STEPS)
LIMIT_S = 30.0
FIRST_SERVER = 12_0000  # the oldest version of PostgreSQL that is maintained, or was when this was written

_EXISTS = "SELECT 1 FROM pg_namespace WHERE nspname = $1"
_TABLES = (
    "SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relname IN ('store', 'owner', 'records')"
)
_MAY_CREATE = "SELECT has_schema_privilege($1::regnamespace, 'CREATE'), has_schema_privilege($1::regnamespace, 'USAGE')"


def create(session: Session, schema: str) -> bool:
    """Create the schema, or take the steps that it lacks; return False if it was complete. Raises StorageFault."""
    writable(session)
    try:
        if not session.run([(_EXISTS, (schema,))], LIMIT_S)[0]:
            session.run([(f"CREATE SCHEMA {quoted(schema)}", ())], LIMIT_S)
        version = _version(session, schema)
        if version == VERSION:
            check(session, schema)
            return False
        if version > VERSION:
            raise StorageFault(newer(schema, version))
        statements: list[Statement] = [
            (text.format(schema=quoted(schema)), ()) for step in _STEPS[version:] for text in step
        ]
        table = f"{quoted(schema)}.store"
        if version:
            statements.append((f"UPDATE {table} SET version = {VERSION}", ()))
        else:
            statements.append((f"INSERT INTO {table} VALUES ($1, $2)", (VERSION, secrets.token_hex(8))))
        session.run(statements, LIMIT_S)
    except Refused as error:
        raise StorageFault(f"schema {schema}: {error}") from error
    except Unreachable as error:
        raise StorageFault(str(error)) from error
    return True


def check(session: Session, schema: str) -> str:
    """Verify that a broker can use the store, and return its id. Raises StorageFault with the first fault."""
    writable(session)
    try:
        if not session.run([(_EXISTS, (schema,))], LIMIT_S)[0]:
            raise Missing(f"there is no schema {schema}; `warren store init URL` creates it")
        rights = session.run([(_MAY_CREATE, (quoted(schema),))], LIMIT_S)[0][0]
        if rights != [b"t", b"t"]:
            raise StorageFault(f"schema {schema}: the role may not create tables in it, or not use it")
        version = _version(session, schema)
        if not version:
            raise Missing(f"schema {schema}: it has no store; `warren store init URL` creates one")
        if version > VERSION:
            raise StorageFault(newer(schema, version))
        if version < VERSION:
            raise StorageFault(
                f"schema {schema}: of version {version}; `warren store init URL` updates it to {VERSION}"
            )
        name = quoted(schema)
        for table in ("store", "owner", "beat", "checkpoint", "records"):
            verify_rights(session, f"{name}.{table}")
        session.run([("SELECT set_config('synchronous_commit', 'off', true)", ()), *BARRIER], LIMIT_S)
        (found,) = session.run([(f"SELECT id FROM {name}.store", ())], LIMIT_S)[0]
    except Refused as error:
        raise StorageFault(f"schema {schema}: {error}") from error
    except Unreachable as error:
        raise Unavailable(str(error)) from error
    return (found[0] or b"").decode()


def writable(session: Session) -> None:
    """Verify the version of the server, and that it may be written to. Raises StorageFault."""
    try:
        row = session.run(
            [("SELECT current_setting('server_version_num'), current_setting('transaction_read_only')", ())], LIMIT_S
        )[0][0]
    except (Refused, Unreachable) as error:
        raise StorageFault(str(error)) from error
    if int(row[0] or 0) < FIRST_SERVER:
        raise StorageFault(f"PostgreSQL {FIRST_SERVER // 10_000} or later is needed")
    if row[1] != b"off":
        raise StorageFault("the server is read-only: a standby, or default_transaction_read_only is set")


def verify_rights(session: Session, table: str) -> None:
    """Verify that the role may change a table. Raises StorageFault, Refused, Unreachable."""
    rights = ("SELECT", "INSERT", "UPDATE", "DELETE")
    columns = ", ".join(f"has_table_privilege($1, '{right}')" for right in rights)
    row = session.run([(f"SELECT {columns}", (table,))], LIMIT_S)[0][0]
    missing = [right for right, has in zip(rights, row, strict=True) if has != b"t"]
    if missing:
        raise StorageFault(f"{table}: the role lacks the right to {', '.join(missing)}")


def newer(schema: str, version: int) -> str:
    return f"schema {schema}: written by a later version of the broker (schema {version}, this one knows {VERSION})"


def _version(session: Session, schema: str) -> int:
    """Return the version of the store, 0 if there is none. Raises StorageFault for tables that are no store."""
    tables = {(row[0] or b"").decode() for row in session.run([(_TABLES, (quoted(schema),))], LIMIT_S)[0]}
    if not tables:
        return 0
    if "store" not in tables or "owner" not in tables:
        raise StorageFault(f"schema {schema}: its tables are not those of a broker")
    rows = session.run([(f"SELECT version FROM {quoted(schema)}.store", ())], LIMIT_S)[0]
    return int(rows[0][0] or 0) if rows else 0
