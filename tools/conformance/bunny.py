"""bunny: spec/ of Debian's sources, with Debian's gems."""

from pathlib import Path

from .brokers import Broker
from .results import Case, rspec
from .sources import debian, download, unpack
from .suite import Suite, Unavailable, needed, test

GEMFILE = """\
gem "base64"
gem "rspec"
gem "amq-protocol"
gem "sorted_set"
gem "bunny", path: "source"
"""
RUBY = "ruby ruby-rspec ruby-amq-protocol ruby-sorted-set"
NEED_HTTP = ("connection_recovery_spec.rb", "connection_stop_spec.rb", "toxiproxy_spec.rb")


class Bunny(Suite):
    name = "bunny"
    version = "2.23.0"
    language = "Ruby"
    what = "`spec/{higher_level_api,lower_level_api,issues}`"
    sha256 = "620a89c2c3d3455a048e3d09e4dfd6f444feb972e8a8e89691cbbd3ada79ff81"
    left_out = (
        ("spec/unit", "opens no connection"),
        ("spec/stress", "measures, for minutes"),
        (
            "spec/higher_level_api/integration/{connection_recovery,connection_stop,toxiproxy}_spec.rb",
            "need gems that only rubygems.org has",
        ),
    )

    explained = tuple(
        (f"{file}: {beginning}", "Warren has no streams")
        for file, beginning in (
            ("default_queue_type_spec.rb", "Bunny::Queue when target virtual host's default queue type is 'stream'"),
            ("queue_declare_spec.rb", "Bunny::Queue when a stream 'queue' is declared using a helper"),
        )
    )

    def prepare(self, folder: Path) -> None:
        needed("rspec", RUBY)
        urls = debian(f"r/ruby-bunny/ruby-bunny_{self.version}.orig.tar.gz")
        unpack(download(urls, self.sha256, folder / "bunny.tar.gz"), folder / "source")
        (folder / "Gemfile").write_text(GEMFILE)

    def run(self, folder: Path, broker: Broker) -> list[Case]:
        source = folder / "source"
        report = broker.folder / "report.json"
        files = [
            str(file.relative_to(source))
            for part in ("higher_level_api", "lower_level_api", "issues")
            for file in sorted((source / "spec" / part).rglob("*_spec.rb"))
            if file.name not in NEED_HTTP
        ]
        command = [needed("rspec", RUBY), "-Ilib", "-Ispec", "--format=json", f"--out={report.resolve()}", *files]
        test(
            command,
            source,
            broker.folder / "tests.log",
            BUNDLE_GEMFILE=str((folder / "Gemfile").resolve()),
            BUNNY_CERTIFICATE_DIR=str(broker.certificates.resolve()),
        )
        if not report.exists():
            raise Unavailable(f"rspec wrote no report, see {broker.folder / 'tests.log'}")
        return rspec(report)
