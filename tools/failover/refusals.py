"""Demand 10: a role with rights on one schema is enough, and a store that cannot be used is refused with one line."""

import tempfile
from pathlib import Path

from tests.support.broker_process import BrokerProcess, run
from tests.support.ports import free_port
from tests.support.postgresql import CARELESS, Cluster, cluster, replicated

from .load import PERSISTENT
from .outcome import Outcome

PASSWORD = "open sesame"


def refused(folder: Path, url: str, expected: str) -> list[str]:
    """Start a broker on a store that it must refuse with one line of this text. Returns the fault, or an empty text."""
    broker = BrokerProcess(folder, store=url)
    broker.launch()
    try:
        status = broker.wait()
    finally:
        broker.close()
    errors = [line for line in broker.log_lines() if line["level"] in ("error", "critical")]
    reasons = [str(line.get("reason", line)) for line in errors]
    output = broker.output.read_text(errors="replace")
    faults = []
    if not status or len(reasons) != 1 or expected not in reasons[0] or "\n" in reasons[0]:
        faults.append(f"expected {expected!r}, it ended with {status} and said {reasons}")
    if "Traceback" in output or PASSWORD in output:
        faults.append(f"a traceback or a password, where {expected!r} was expected")
    return faults


def one_schema(server: Cluster, folder: Path) -> list[str]:
    """Use a store as a role that may use one schema and nothing else."""
    server.execute("CREATE ROLE tenant LOGIN")
    server.execute("CREATE SCHEMA tenant AUTHORIZATION tenant")
    server.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    url = server.url(user="tenant")
    done = run("store", "init", url, "--schema", "tenant")
    if done.returncode:
        return [f"store init: {done.stderr}"]
    brokers = [BrokerProcess(folder / name, store=url, node=f"warren@{name}") for name in ("a", "b")]
    try:
        for broker in brokers:
            broker.configure("storage.schema = tenant")
        brokers[0].start()
        brokers[1].launch()
        brokers[1].wait_for_event("standby")
        channel = brokers[0].connect().channel()
        channel.declare("q", durable=True)
        channel.confirm()
        channel.publish("", "q", b"kept", PERSISTENT)
        channel.confirms([1])
        brokers[0].kill()
        brokers[1].wait_ready()
        kept = brokers[1].connect().channel().drain("q") == [b"kept"]
        brokers[1].stop()
        doctor = run("doctor", "--store", url, "--schema", "tenant")
    finally:
        for broker in brokers:
            broker.close()
    return [] if kept and not doctor.returncode else [f"a role with one schema: {doctor.stdout}{doctor.stderr}"]


def refusals() -> Outcome:
    """Demand 10."""
    cases = 0
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="warren-failover-") as name:
        folder = Path(name)
        with cluster(*CARELESS) as server:
            faults += one_schema(server, folder)
            for database in ("empty", "later", "early", "shop", "rights"):
                server.execute(f"CREATE DATABASE {database} TEMPLATE template0")
            for database in ("later", "early", "rights"):
                run("store", "init", server.url(database=database))
            server.execute("UPDATE warren.store SET version = 99", "later")
            server.execute("UPDATE warren.store SET version = 0", "early")
            server.execute("CREATE SCHEMA warren CREATE TABLE store (name text)", "shop")
            server.execute("CREATE ROLE guest LOGIN")
            server.execute("GRANT ALL ON SCHEMA warren TO guest", "rights")
            server.execute(f"CREATE ROLE careful LOGIN PASSWORD '{PASSWORD}'")
            hba = server.data / "pg_hba.conf"
            hba.write_text("host all careful 127.0.0.1/32 scram-sha-256\n" + hba.read_text())
            server.execute("SELECT pg_reload_conf()")
            read_only = "?options=-cdefault_transaction_read_only%3Don&target_session_attrs=any"
            for url, expected in (
                (f"postgresql://u@127.0.0.1:{free_port()}/d", "Connection refused"),
                (server.url(database="nowhere"), 'database "nowhere" does not exist'),
                (server.url(user="nobody"), 'role "nobody" does not exist'),
                (f"postgresql://careful:wrong@127.0.0.1:{server.port}/empty", "password authentication failed"),
                (server.url(user="careful", database="empty"), "no password supplied"),
                ("postgresql://u@127.0.0.1:port/d", "invalid integer value"),
                (server.url(database="empty"), "`warren store init URL` creates it"),
                (server.url(database="shop"), "its tables are not those of a broker"),
                (server.url(database="later"), "written by a later version of the broker"),
                (server.url(database="early"), "`warren store init URL`"),
                (server.url(user="guest", database="rights"), "permission denied for table store"),
                (server.url(database="rights") + read_only, "the server is read-only"),
            ):
                cases += 1
                faults += refused(folder / f"case {cases}", url, expected)
        with replicated() as (primary, standby):
            run("store", "init", primary.url())
            cases += 1
            faults += refused(folder / "standby", standby.url(), "read-only")
    text = f"a broker and its standby ran as a role with rights on one schema; {cases} bad stores: one line each"
    return Outcome(not faults, "; ".join(faults) or text)
