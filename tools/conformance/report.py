"""The counts of a run, for people (Markdown) and programs (JSON)."""

import json
import time
from pathlib import Path

from .results import Case, Outcome
from .suite import Suite


class Run:
    """One suite against one broker; failures of Warren (`ours`) need explanations.

    `product` is the name and version of the broker, `reason` why the suite did not run, `seconds` its time.
    """

    def __init__(
        self, suite: Suite, ours: bool, cases: list[Case], reason: str = "", product: str = "", seconds: float = 0
    ) -> None:
        self.suite = suite
        self.ours = ours
        self.cases = cases
        self.reason = reason
        self.product = product
        self.seconds = seconds

    def ended(self, outcome: Outcome) -> list[Case]:
        return [case for case in self.cases if case.outcome is outcome]

    def why(self, case: Case) -> str | None:
        """Return the explanation of a failure of Warren."""
        return self.suite.reason(case.name) if self.ours and case.outcome is Outcome.FAILED else None

    def unexplained(self) -> list[Case]:
        return [case for case in self.ended(Outcome.FAILED) if self.ours and self.why(case) is None]

    def as_json(self) -> dict[str, object]:
        return {
            "suite": self.suite.name,
            "version": self.suite.version,
            "product": self.product,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "seconds": round(self.seconds),
            "not_run": self.reason or None,
            "left_out": dict(self.suite.left_out),
            **{outcome.value: len(self.ended(outcome)) for outcome in Outcome},
            "tests": [
                {
                    "name": case.name,
                    "outcome": case.outcome.value,
                    "message": case.message,
                    "explained": self.why(case),
                }
                for case in self.cases
            ],
        }


def markdown(broker: str, runs: list[Run]) -> str:
    lines = [
        f"| suite | version | passed | failed | skipped | seconds | against {broker} |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for run in runs:
        counts = [str(len(run.ended(outcome))) for outcome in Outcome] + [f"{run.seconds:.0f}"]
        unexplained = len(run.unexplained())
        note = f"not run: {run.reason}" if run.reason else f"{unexplained} unexplained" if unexplained else ""
        cells = [run.suite.name, run.suite.version, *([""] * 4 if run.reason else counts), note]
        lines.append(f"| {' | '.join(cells)} |")
    for run in runs:
        odd = [case for case in run.cases if case.outcome is not Outcome.PASSED]
        if odd:
            lines += ["", f"## {run.suite.name}", ""]
            lines += [f"- {case.outcome.value}: `{case.name}`: {described(run, case)}" for case in odd]
    return "\n".join(lines) + "\n"


def described(run: Run, case: Case) -> str:
    reason = run.why(case)
    return f"{case.message} ({reason})" if reason else case.message


def result_file(folder: Path, broker: str, suite: str) -> Path:
    """Return the path of the result of a suite's last run against a broker."""
    return folder / "results" / f"{suite}-{broker}.json"


def keep(folder: Path, broker: str, run: Run) -> None:
    """Write the result of one suite, from which the public table is made. A suite that did not run keeps its last."""
    file = result_file(folder, broker, run.suite.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    if not run.reason:
        file.write_text(json.dumps(run.as_json(), indent=1) + "\n")


def write(folder: Path, broker: str, runs: list[Run]) -> None:
    """Write the files `report-BROKER.md` and `report-BROKER.json`."""
    (folder / f"report-{broker}.md").write_text(markdown(broker, runs))
    (folder / f"report-{broker}.json").write_text(json.dumps([run.as_json() for run in runs], indent=1) + "\n")
