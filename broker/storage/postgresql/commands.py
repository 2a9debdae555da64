"""`warren store init URL` and `warren store check URL`."""

import sys

from ..errors import StorageFault, Unavailable

DONE_STATUS, FAULT_STATUS = 0, 1
UNAVAILABLE_STATUS = 69  # EX_UNAVAILABLE of sysexits.h: the server cannot be reached


def init(url: str, password_file: str, schema: str) -> int:
    """Create or update the tables of a store, print what was done, and return the exit status."""
    try:
        from .address import parse  # here: psycopg is an extra
        from .store import create

        address = parse(url, password_file, schema)
        created = create(address)
    except StorageFault as fault:
        return failed(fault)
    print(f"{address.shown}: {'ready for a broker' if created else 'ready already'}")
    return DONE_STATUS


def check(url: str, password_file: str, schema: str) -> int:
    """Check a store, print its owner and what a confirm means there, and return the exit status."""
    try:
        from .address import parse
        from .store import PostgreSQLStore

        store = PostgreSQLStore(parse(url, password_file, schema), "")
        try:
            standing, guarantee = store.standing(), store.guarantee
            store.check_finished()
        finally:
            store.close()
    except StorageFault as fault:
        return failed(fault)
    print(f"{store.address.shown}: id {store.id}, epoch {standing.epoch}")
    print(f"owner: {standing.node if standing.age_s is not None else 'none'}")
    print(f"a confirmed message is on {guarantee.text}")
    if guarantee.warning:
        print(f"warning: {guarantee.warning}")
    return DONE_STATUS


def failed(fault: StorageFault) -> int:
    print(f"warren: {fault}", file=sys.stderr)
    return UNAVAILABLE_STATUS if isinstance(fault, Unavailable) else FAULT_STATUS
