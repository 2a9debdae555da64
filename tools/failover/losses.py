"""Demands 1 to 5: the loss of a broker, of the server, of the network to it and of its disk, under load."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

from tests.support.loop_thread import LoopThread
from tests.support.polling import until
from tests.support.postgresql import Cluster, cluster, replicated
from tests.support.proxy import Proxy

from .load import Ledger, Load
from .outcome import Outcome
from .site import Site, site

SERVES_WITHIN_S = 3.0
IN_FLIGHT_S = 0.5  # the time in which a confirm from before a fault arrives
NOT_OWNER_STATUS = 75
SMALL_DISK = "128m"  # an empty database takes 8, and the load must not fill it
BODY_BYTES = 4000  # messages that fill a small disk
DOUBT = "confirmed messages are lost with the disk of the server"


def killed_broker(rounds: int, backlog: int, within_s: float = SERVES_WITHIN_S) -> Outcome:
    """Demand 1."""
    served_s: list[float] = []
    with cluster() as server, site(server.url()) as here:
        here.fill(backlog)
        load = Load(here.addresses)
        load.start()
        kept = True
        for _ in range(rounds):
            load.run(random.uniform(0.3, 1.5))
            here.active.kill()
            took_s, count = here.served_s(time.monotonic(), "backlog")
            served_s.append(took_s)
            kept = kept and count == backlog
            here.swap()
        ledger = load.finish()
        kept = kept and len(here.backlog()) == backlog
    holds = kept and sound(ledger) and median(served_s) <= within_s
    return Outcome(
        holds,
        f"{rounds} kills: {ledger}; the standby served after {median(served_s):.2f} s (median; longest"
        f" {max(served_s):.2f} s), with {'all' if kept else 'NOT ALL'} of the backlog of {backlog:,}",
    )


def killed_primary(rounds: int) -> Outcome:
    """Demand 2, with a synchronous standby server."""
    confirmed_s: list[float] = []
    with replicated() as (primary, standby), site(primary.url(standby), standby=False) as here:
        guarantee = here.active.events("ready")[0]["guarantee"]
        load = Load(here.addresses)
        load.start()
        for _ in range(rounds):
            load.run(random.uniform(0.5, 1.5))
            lost_s = time.monotonic()
            primary.stop("immediate")
            standby.promote()
            confirmed_s.append(load.ledger.wait_for_confirm(lost_s + IN_FLIGHT_S) + IN_FLIGHT_S)
            load.run(0.2)
            follow(primary, standby)
            primary, standby = standby, primary
        ledger = load.finish()
        restarts = here.active.starts - 1
    return Outcome(
        sound(ledger) and not restarts and "1 standby" in guarantee,
        f"{rounds} promotions: {ledger}; status: {guarantee}; confirms again after {median(confirmed_s):.1f} s"
        f" (median, with the promotion; longest {max(confirmed_s):.1f} s), {restarts} restarts of the broker",
    )


def follow(server: Cluster, primary: Cluster) -> None:
    """Make a server that has crashed the synchronous standby of the one that was promoted."""
    shutil.rmtree(server.data)
    server.follow(primary)
    primary.set("synchronous_standby_names", f"'{server.name}'")
    primary.wait_for_standby(server.name)


def killed_primary_of_asynchronous_standby() -> Outcome:
    """Demand 2, with an asynchronous standby server, which was away when the primary was lost."""
    with replicated(synchronous=False) as (primary, standby), site(primary.url(standby), standby=False) as here:
        (warning,) = here.active.events("weak_guarantee")[:1]
        status = here.active.warrenctl("status").stdout
        load = Load(here.addresses)
        load.start(consuming=False)
        load.run(0.5)
        standby.stop()
        load.run(1.0)
        primary.stop("immediate")
        standby.start()
        standby.promote()
        until(lambda: here.active.process.poll() is not None or here.active.events("store_available"), "an end")
        if ended := here.active.process.poll() is not None:
            here.active.start()
        load.consumer.start()
        ledger = load.finish()
    return Outcome(
        DOUBT in warning["means"] and DOUBT in status,
        f"status before: {warning['means']}; {ledger}; the broker {'ended' if ended else 'went on'}, as the"
        f" promoted server {'lacked' if ended else 'had'} its last transaction",
    )


def stopped_broker(rounds: int, lease_s: int, late: int = 0) -> Outcome:
    """Demand 3. `late` messages of each round may have been confirmed in the microseconds before the broker stopped."""
    statuses: list[int] = []
    with cluster() as server, site(server.url(), f"storage.lease_s = {lease_s}") as here:
        load = Load(here.addresses)
        load.start()
        for _ in range(rounds):
            load.run(random.uniform(0.3, 1.0))
            stopped_s = time.monotonic()
            here.active.process.send_signal(signal.SIGSTOP)
            here.standby.wait_ready()
            load.ledger.wait_for_confirm(stopped_s + IN_FLIGHT_S)  # by the new owner
            here.active.process.send_signal(signal.SIGCONT)
            statuses.append(here.active.wait())
            here.swap()
        ledger = load.finish()
    return Outcome(
        sound(ledger)
        and len(ledger.late) <= late * rounds
        and not ledger.untrue
        and set(statuses) == {NOT_OWNER_STATUS},
        f"{rounds} stops beyond a lease of {lease_s} s: {ledger}; {len(ledger.late)} confirmed by both owners,"
        f" {ledger.untrue} of them not stored by both; the former one ended with status"
        f" {', '.join(map(str, sorted(set(statuses))))}",
    )


def unreachable_server(seconds: float) -> Outcome:
    """Demand 4."""
    loop = LoopThread()
    with cluster() as server:
        proxy = Proxy(loop, ("127.0.0.1", server.port))
        try:
            with site(f"postgresql://postgres@{proxy.address}/postgres", standby=False) as here:
                return _unreachable(here, proxy, seconds)
        finally:
            proxy.close()
            loop.close()


def _unreachable(here: Site, proxy: Proxy, seconds: float) -> Outcome:
    load = Load(here.addresses)
    load.start()
    load.run(1.0)
    began_s = time.monotonic()
    proxy.silence()
    load.run(seconds)
    load.wait_until_held()
    ended_s = time.monotonic()
    proxy.restore()
    again_s = load.ledger.wait_for_confirm(ended_s)
    ledger = load.finish()
    meanwhile = ledger.confirmed_between(began_s + IN_FLIGHT_S, ended_s)
    held = min(ledger.blocked, ledger.unblocked)
    return Outcome(
        sound(ledger) and not meanwhile and held >= len(load.publishers) and here.active.starts == 1,
        f"no answer for {seconds:.0f} s: {meanwhile} confirmed meanwhile; {ledger}; {held} publishers held and"
        f" released, confirms again {again_s:.1f} s after",
    )


@contextmanager
def small_disk(server: Cluster) -> Iterator[Path | None]:
    """Context with a folder on a disk of a few megabytes for tables of that server, or None if none can be mounted."""
    folder = server.folder / "small"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={SMALL_DISK},mode=777", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        yield None
        return
    try:
        (tables := folder / "tables").mkdir(mode=0o700)
        owner = server.folder.stat()
        os.chown(tables, owner.st_uid, owner.st_gid)
        yield folder
    finally:
        server.stop()
        subprocess.run(["umount", str(folder)], check=True)


def full_disk(seconds: float) -> Outcome:
    """Demand 5."""
    with cluster() as server, small_disk(server) as folder:
        if folder is None:
            return Outcome(None, "not measured: a small disk can be mounted only by root, and not in every container")
        server.execute(f"CREATE TABLESPACE small LOCATION '{folder / 'tables'}'")
        server.execute("CREATE DATABASE store TABLESPACE small TEMPLATE template0")
        with site(server.url(database="store"), standby=False) as here:
            return _full(here, folder / "filler", seconds)


def _full(here: Site, filler: Path, seconds: float) -> Outcome:
    here.fill(1000)
    load = Load(here.addresses, bytes(BODY_BYTES))
    load.start()
    load.run(0.5)
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    full_s = time.monotonic()
    load.wait_until_held()
    held_s = time.monotonic()
    load.run(seconds)
    taken = len(here.backlog())
    freed_s = time.monotonic()
    filler.unlink()
    again_s = load.ledger.wait_for_confirm(freed_s)
    ledger = load.finish()
    meanwhile = ledger.confirmed_between(held_s + IN_FLIGHT_S, freed_s)
    return Outcome(
        sound(ledger) and not meanwhile and taken == 1000 and here.active.starts == 1,
        f"publishers held {held_s - full_s:.1f} s after the disk was full; in {seconds:.0f} s {meanwhile} confirmed,"
        f" and {taken} of 1000 messages of the backlog consumed; confirms again {again_s:.1f} s after there was"
        f" space; {ledger}",
    )


def sound(ledger: Ledger) -> bool:
    return not (ledger.lost or ledger.unflagged or ledger.unexpected) and bool(ledger.confirmed)
