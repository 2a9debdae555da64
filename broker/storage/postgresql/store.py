"""A store on PostgreSQL: who owns it, and for its owner the disk and the metadata of a journal."""

from ..checkpoint import check_finished
from ..errors import StorageFault, Unavailable
from ..folder_lock import InUse
from . import durability, schema
from .address import Address
from .database import COMMITS, READS, WATCH, PostgreSQL
from .disk import PostgreSQLDisk
from .durability import Guarantee
from .errors import Refused, Unreachable
from .metadata import PostgreSQLMetadata
from .ownership import Beats, Ownership, Standing
from .session import Session
from .transactions import NoTransactions, Transactions

TAKEOVER_S = 10.0  # for a command to wait for a synchronous standby server
READ_S = 2.0  # for the loop to wait for a part of a backlog


class PostgreSQLStore:
    """The store at an address, verified, for a broker with this node name."""

    def __init__(self, address: Address, node: str, lease_s: float = 10.0) -> None:
        """Verify the schema. Raises StorageFault."""
        self.address = address
        session = connect(address, "warren check")
        try:
            self.id = schema.check(session, address.schema)  # the id of the store, on any server
        except StorageFault as fault:
            raise type(fault)(f"{address.shown}: {fault}") from fault
        finally:
            session.close()
        self.database = PostgreSQL(address, f"warren {self.id} standby")  # its sessions
        self.guarantee = Guarantee("")  # the guarantee of a confirm that was read last
        self.ownership = Ownership(self.database, self.id, node, lease_s)  # the ownership of this broker
        self._beats = Beats(self.ownership)

    def acquire(self, limit_s: float | None = None) -> Standing | None:
        """Take the store over, and return None; or return the owner. Raises StorageFault, ConfirmedLost.

        The takeover is a transaction, which waits for a synchronous standby server, until `abandon` or `limit_s`.
        """
        try:
            standing = self.ownership.acquire(limit_s)
        except (Unreachable, Refused) as error:
            raise unusable(self.address, error) from error
        if standing is None:
            self.database.name = self.ownership.name(self.ownership.epoch)
        return standing

    def abandon(self) -> None:
        """End an `acquire` of another thread, which raises StorageFault then."""
        self.database.abandon([WATCH])

    def standing(self) -> Standing:
        """Return the owner of the store, and read the guarantee. Raises StorageFault."""
        try:
            self.database.connect(WATCH)
            self.guarantee = durability.read(self.database)
            return self.ownership.standing()
        except (Unreachable, Refused) as error:
            raise unusable(self.address, error) from error

    def check_finished(self) -> None:
        """Raise StorageFault for a store that `warren copy` has not written to its end."""
        try:
            check_finished(PostgreSQLDisk(self.database, NoTransactions(self.database, 0, 0)).load_checkpoint())
        except OSError as error:
            raise Unavailable(f"{self.address.shown}: {error.strerror}") from error

    def acquire_now(self) -> None:
        """Take the store over. Raises InUse if another broker owns it, StorageFault."""
        try:
            standing = self.acquire(TAKEOVER_S)
        except Unavailable as fault:
            raise Unavailable(
                f"{fault}; a takeover waits for a synchronous standby server, if there is to be one"
            ) from fault
        if standing is not None and self.ownership.blocked:
            raise Unavailable(f"{self.address.shown}: another takeover waits for a synchronous standby server")
        if standing is not None:
            raise InUse(f"{self.address.shown} is in use by another broker ({standing.node})")

    def open(self, retry_s: float = 30.0, untouched: bool = False) -> tuple[PostgreSQLDisk, PostgreSQLMetadata]:
        """Return disk and metadata of the owner, for a journal; `untouched` ones change nothing.

        Heartbeats are written until `opened` or `close`, because recovery may take longer than the lease. Raises
        StorageFault, OSError.
        """
        try:
            self.database.connect(COMMITS[0])
            self.database.connect(READS)
            self.guarantee = durability.read(self.database)
        except (Unreachable, Refused) as error:
            raise unusable(self.address, error) from error
        self._beats.start()
        kind = NoTransactions if untouched else Transactions
        self.transactions = kind(self.database, self.ownership.epoch, self.ownership.commits, retry_s)
        disk = PostgreSQLDisk(self.database, self.transactions)
        return disk, PostgreSQLMetadata(self.database, self.transactions)

    def opened(self) -> None:
        """End recovery: the loop waits for reads now, so their time is shorter, and a watch writes the heartbeats."""
        self._beats.stop()
        self.database.read_s = READ_S

    def close(self) -> None:
        """End the ownership, so that a standby takes over at once, and close the sessions."""
        self._beats.stop()
        try:
            if self.ownership.epoch:
                self.ownership.release()
        except (Unreachable, Refused):
            pass  # the standby notices the end of the session
        finally:
            self.database.close()


def connect(address: Address, name: str) -> Session:
    """Open a session. Raises StorageFault."""
    try:
        return Session(address, name)
    except (Unreachable, Refused) as error:
        raise unusable(address, error) from error


def unusable(address: Address, error: Unreachable | Refused) -> StorageFault:
    kind = Unavailable if isinstance(error, Unreachable) else StorageFault
    return kind(f"{address.shown}: {error}")


def create(address: Address) -> bool:
    """Create or update the schema; return False if it was complete. Raises StorageFault."""
    session = connect(address, "warren init")
    try:
        return schema.create(session, address.schema)
    except StorageFault as fault:
        raise StorageFault(f"{address.shown}: {fault}") from fault
    finally:
        session.close()
