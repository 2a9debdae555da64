"""The cost of an analysis: time, processor time and memory, for logs of three sizes; and the large tables by DuckDB.

    python -m tools.analytics.bench [--events 10000 1000000 10000000] [--master local[2]] [--duckdb]

The first analysis is not measured, because it may write the archive of Java's classes. Memory is the peak of the
resident memory of the process and its children (Python and Java together).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.broker_process import command_line

from ..bench.process import cpu_s, rss_bytes
from . import bulk

EVERY_S = 0.2

DUCKDB = """
create view e as select * from read_parquet('{folder}/events/**/*.parquet');
create table t as select node, vhost, queue, "user", event, epoch(ts_us)::bigint as second, count(*) as n,
    sum(size) as bytes from e group by all;
copy (select vhost, queue, "user", event, second, sum(n), sum(bytes) from t group by all) to '{out}/1s.parquet';
copy (select vhost, queue, "user", event, second // 60, sum(n) from t group by all) to '{out}/1m.parquet';
copy (select vhost, queue, "user", event, second // 3600, sum(n) from t group by all) to '{out}/1h.parquet';
copy (select vhost, queue, event, quantile_disc(lat_us, [0.5, 0.9, 0.99, 0.999]), max(lat_us) from e
    where lat_us is not null group by all) to '{out}/latency.parquet';
copy (select vhost, exchange, routing_key, count(*), sum(size) from e where event = 'publish' group by all)
    to '{out}/keys.parquet';
create table j as select node, boot_id, vhost, queue, msg_seq, count(*) filter (event = 'enqueue') as entered,
    count(*) filter (event in ('ack', 'drop', 'expire', 'dlx', 'fed_out') or event = 'deliver' and no_ack) as gone,
    min(mono_ns) filter (event = 'enqueue') as enter_ns, min(mono_ns) filter (event = 'deliver') as deliver_ns,
    max(mono_ns) filter (event = 'ack') as ack_ns from e where queue is not null group by all;
copy (select vhost, queue, sum(entered), sum(gone), quantile_disc(deliver_ns - enter_ns, [0.5, 0.9, 0.99, 0.999]),
    quantile_disc(ack_ns - deliver_ns, [0.5, 0.9, 0.99, 0.999]) from j group by all) to '{out}/queues.parquet';
copy (select * from j where entered <> 1 or gone <> 1) to '{out}/odd.parquet';
"""


def measured(command: list[str]) -> str:
    """Run a command, and return its cost. Raises CalledProcessError if it fails."""
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    spent_s, peak = 0.0, 0
    while process.poll() is None:
        spent_s, peak = max(spent_s, cpu_s(process.pid)), max(peak, rss_bytes(process.pid))
        time.sleep(EVERY_S)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return f"{time.monotonic() - started:7.1f} s   {spent_s:7.1f} s of CPU   {peak / 2**30:5.2f} GiB"


def analysis(log: Path, master: str) -> list[str]:
    return command_line("analyze", "--input", str(log), "--output", f"{log}.out", "--master", master)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[10_000, 1_000_000, 10_000_000])
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--duckdb", action="store_true", help="beside it; needs: pip install duckdb")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="warren-analytics-") as folder:
        first = Path(folder) / "first"
        bulk.write(first, 100)
        measured(analysis(first, options.master))
        for events in options.events:
            log = Path(folder) / str(events)
            bulk.write(log, events)
            cost = measured(analysis(log, options.master))
            print(f"{events:>12,} events, Spark  {cost}   load {os.getloadavg()[0]:.1f}")
            if options.duckdb:
                out = Path(f"{log}.duckdb")
                out.mkdir()
                script = f"import duckdb; duckdb.connect().execute({DUCKDB.format(folder=log, out=out)!r})"
                print(f"{events:>12,} events, DuckDB {measured([sys.executable, '-c', script])}", flush=True)


if __name__ == "__main__":
    main()
