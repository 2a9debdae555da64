"""The runs: clients without faults, under kills, cuts, and takeovers of a store on PostgreSQL; the check of each."""

import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.broker_process import BrokerProcess
from tests.support.loop_thread import LoopThread
from tests.support.ports import HOST, ReservedPort
from tests.support.postgresql import cluster, missing
from tests.support.proxy import Proxy
from tools.failover.outcome import Outcome
from tools.failover.site import site

from .history import Clients

CHECKER = Path(__file__).with_name("checker")
PORCUPINE = "Porcupine 1.2.1"
NO_GO = f"{PORCUPINE} needs Go (apt-get install golang-go)"
CHECKED_WITHIN_S = 900.0
FAULTS = 5
Run = Callable[[Path, float, random.Random], str]


def calm(history: Path, seconds: float, dice: random.Random) -> str:
    with _broker(history) as broker:
        # More takers than publishers keep the queue short: the checker finds a wrong guess of the order in a long one
        # late, at exponential cost.
        clients = Clients([f"{HOST}:{broker.port}"], publishers=2, takers=4)
        time.sleep(seconds)
        clients.finish(history)
    return "no faults"


def killed(history: Path, seconds: float, dice: random.Random) -> str:
    with _broker(history) as broker:
        clients = Clients([f"{HOST}:{broker.port}"])
        for _ in range(FAULTS):
            time.sleep(dice.uniform(0.5, 1.5) * seconds / FAULTS)
            broker.kill()
            broker.start()
        clients.finish(history)
    return f"{FAULTS} kills"


def cut(history: Path, seconds: float, dice: random.Random) -> str:
    loop = LoopThread()
    with _broker(history) as broker:
        proxy = Proxy(loop, broker.address)
        clients = Clients([proxy.address])
        for _ in range(3 * FAULTS):
            time.sleep(dice.uniform(0.5, 1.5) * seconds / FAULTS / 3)
            proxy.blink()
        clients.finish(history)
        proxy.close()
    loop.close()
    return f"{3 * FAULTS} times all connections cut"


def taken_over(history: Path, seconds: float, dice: random.Random) -> str:
    with cluster() as server, site(server.url()) as here:
        clients = Clients(here.addresses)
        for _ in range(FAULTS):
            time.sleep(dice.uniform(0.5, 1.5) * seconds / FAULTS)
            here.active.kill()
            here.swap()
        clients.finish(history)
    return f"{FAULTS} kills of the active broker, each with a takeover"


def _broker(history: Path) -> BrokerProcess:
    """A broker with the same port at each start."""
    port = ReservedPort()
    return BrokerProcess(history.parent / f"{history.stem}-broker", amqp=f"{HOST}:{port.number}")


RUNS: dict[str, tuple[str, Run]] = {
    "calm": ("queue", calm),
    "killed": ("set", killed),
    "cut": ("set", cut),
    "takeover": ("set", taken_over),
}


def run(name: str, folder: Path, seconds: float, seed: int) -> Outcome:
    """Write the history `name`.jsonl into the folder, and check it."""
    if name == "takeover" and (reason := missing()):
        return Outcome(None, reason)
    model, make = RUNS[name]
    history = folder / f"{name}.jsonl"
    faults = make(history, seconds, random.Random(seed))
    found = check(model, history)
    return Outcome(found.holds, f"{faults}: {found.text}")


def check(model: str, history: Path) -> Outcome:
    """Check a history by Porcupine with this model."""
    if shutil.which("go") is None:
        return Outcome(None, NO_GO)
    done = subprocess.run(
        ["go", "run", ".", model, str(history.absolute())],
        cwd=CHECKER,
        capture_output=True,
        text=True,
        check=False,
        timeout=CHECKED_WITHIN_S,
    )
    if not done.stdout:
        return Outcome(None, f"{PORCUPINE} cannot be built: {' '.join(done.stderr.split())[-200:]}")
    return Outcome(done.returncode == 0, f"{done.stdout.strip()} ({PORCUPINE}, model {model})")
