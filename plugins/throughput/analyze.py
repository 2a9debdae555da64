"""`warren analyze`: what the brokers exported, as reports. Reads the log with Spark, which is imported when it runs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from broker.plugin import Command


class Analyze(Command):
    about = "make reports of what brokers exported: where every message went, how fast, and whether any is missing"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--input", metavar="DIR", required=True, help="the folder of the export")

    def run(self, options: Namespace) -> int:
        raise NotImplementedError
