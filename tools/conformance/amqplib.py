"""amqplib: the tests in its npm package; node/package-lock.json pins it and its dependencies."""

import shutil
from pathlib import Path

from .brokers import PORT, Broker
from .results import Case, junit
from .suite import Suite, Unavailable, bring, needed, test

TEST_TIMEOUT_MS = 10_000


class Amqplib(Suite):
    name = "amqplib"
    version = "0.10.8"
    language = "JavaScript"
    what = "`test/{connect,callback_api,channel_api}.js`"
    tests = ("connect", "callback_api", "channel_api")
    left_out = (("test/{bitset,channel,codec,connection,data,frame,mux,util}.js", "open no connection"),)

    def prepare(self, folder: Path) -> None:
        npm = needed("npm", "npm")
        for file in (Path(__file__).parent / "node").glob("package*.json"):
            shutil.copy(file, folder)
        bring([npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"], folder)

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        report = broker.folder / "report.xml"
        command = [
            needed("node", "nodejs"), "node_modules/mocha/bin/mocha", "-u", "tdd", "--check-leaks", "--exit",
            f"--timeout={TEST_TIMEOUT_MS}", "--reporter=xunit", f"--reporter-option=output={report}", "--ignore=none",
            *[f"node_modules/amqplib/test/{name}.js" for name in self.tests],
        ]  # fmt: skip
        test(command, folder, broker.folder / "tests.log", URL=f"amqp://guest:guest@127.0.0.1:{PORT}")
        if not report.exists():
            raise Unavailable(f"mocha wrote no report, see {broker.folder / 'tests.log'}")
        return junit(report)
