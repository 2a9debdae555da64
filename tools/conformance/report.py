"""The counts of a run, for people (Markdown) and programs (JSON)."""

import json
from pathlib import Path

from .results import Case, Outcome
from .suite import Suite


class Run:
    """One suite against one broker; failures of Warren (`ours`) need explanations. `reason`: why it did not run."""

    def __init__(self, suite: Suite, ours: bool, cases: list[Case], reason: str = "") -> None:
        self.suite = suite
        self.ours = ours
        self.cases = cases
        self.reason = reason

    def ended(self, outcome: Outcome) -> list[Case]:
        return [case for case in self.cases if case.outcome is outcome]

    def why(self, case: Case) -> str | None:
        """Return the explanation of a failure of Warren."""
        return self.suite.why_explained(case) if self.ours and case.outcome is Outcome.FAILED else None

    def unexplained(self) -> list[Case]:
        return [case for case in self.ended(Outcome.FAILED) if self.ours and self.why(case) is None]

    def as_json(self) -> dict[str, object]:
        return {
            "suite": self.suite.name,
            "version": self.suite.version,
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
    lines = [f"| suite | version | passed | failed | skipped | against {broker} |", "|---|---|---:|---:|---:|---|"]
    for run in runs:
        counts = ["", "", ""] if run.reason else [str(len(run.ended(outcome))) for outcome in Outcome]
        unexplained = len(run.unexplained())
        note = f"not run: {run.reason}" if run.reason else f"{unexplained} unexplained" if unexplained else ""
        lines.append(f"| {' | '.join([run.suite.name, run.suite.version, *counts, note])} |")
    for run in runs:
        odd = [case for case in run.cases if case.outcome is not Outcome.PASSED]
        if odd:
            lines += ["", f"## {run.suite.name}", ""]
            lines += [f"- {case.outcome.value}: `{case.name}`: {described(run, case)}" for case in odd]
    return "\n".join(lines) + "\n"


def described(run: Run, case: Case) -> str:
    reason = run.why(case)
    return f"{case.message} ({reason})" if reason else case.message


def write(folder: Path, broker: str, runs: list[Run]) -> None:
    """Write the files `report-BROKER.md` and `report-BROKER.json`."""
    (folder / f"report-{broker}.md").write_text(markdown(broker, runs))
    (folder / f"report-{broker}.json").write_text(json.dumps([run.as_json() for run in runs], indent=1) + "\n")
