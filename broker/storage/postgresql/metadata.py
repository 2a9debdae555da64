"""The metadata in a PostgreSQL database: a table of records (`..metadata`). Changes are committed with the log."""

from hashlib import sha256

from ...core.metadata.records import Change, Definitions
from ..errors import StorageFault
from ..metadata import Metadata, MetadataRows, RowChange, RowsOfMoment
from .database import Database
from .errors import Refused, Unreachable
from .operations import DeleteRecord, DeleteVHost, Operation, PutRecord
from .transactions import Transactions


class PostgreSQLMetadata(Metadata):
    """The metadata in a database. `sync` and `close` have nothing to do."""

    def __init__(self, database: Database, transactions: Transactions) -> None:
        self._database = database
        self._transactions = transactions
        self._rows = MetadataRows()

    def load(self) -> Definitions:
        try:
            return self._rows.definitions(self._database.records())
        except (Unreachable, Refused) as error:
            raise StorageFault(f"PostgreSQL: {error}") from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise StorageFault(f"damaged: {error}") from error

    def apply(self, changes: list[Change]) -> None:
        self._transactions.gather(*map(operation, self._rows.changes(changes)))

    def sync(self) -> None: ...

    def moment(self) -> RowsOfMoment:
        raise NotImplementedError("`PostgreSQLDisk.moment` reads both")

    def close(self) -> None: ...


def operation(change: RowChange) -> Operation:
    """Return the operation for a change. Its key is a digest, since field tables may be longer than an index takes."""
    digest = sha256(change.key.encode()).digest()
    if change.record is not None:
        return PutRecord(change.kind, digest, change.vhost, change.record)
    return DeleteRecord(change.kind, digest) if change.kind else DeleteVHost(change.vhost)
