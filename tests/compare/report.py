"""The report of a comparison: how much is equal, which differences are known and why, and which are new."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .documents import Difference
from .known import KNOWN, Known, reason_of

SUBJECTS = 3  # how many routes or commands a line names of those that differ alike


@dataclass(frozen=True)
class Totals:
    """The differences, sorted: `known` by reason, `new` without one."""

    compared: int
    equal: int
    known: dict[str, list[Difference]]
    new: list[Difference]

    @classmethod
    def of(cls, compared: int, found: Iterable[Difference], table: tuple[Known, ...] = KNOWN) -> "Totals":
        """The totals of so many answers, of which `found` differ."""
        unique = list(dict.fromkeys(found))
        known: dict[str, list[Difference]] = {}
        new = []
        for one in unique:
            reason = reason_of(one, table)
            if reason is None:
                new.append(one)
            else:
                known.setdefault(reason, []).append(one)
        return cls(compared, max(compared - len({one.subject for one in unique}), 0), known, new)


def lines_of(totals: Totals, all_known: bool) -> Iterator[str]:
    count = sum(map(len, totals.known.values()))
    yield (
        f"compared {totals.compared}, equal {totals.equal}, "
        f"known differences {count}, NEW differences {len(totals.new)}"
    )
    for reason, differences in sorted(totals.known.items()):
        yield f"known: {reason} ({len(differences)})"
        if all_known:
            yield from (f"    {line}" for line in grouped(differences))
    yield from (f"NEW: {line}" for line in grouped(totals.new))


def grouped(differences: Iterable[Difference]) -> Iterator[str]:
    """A line for all that differ alike at the same place."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for one in differences:
        alike.setdefault((one.place, one.warren, one.reference), []).append(one.subject)
    for (place, warren, reference), subjects in alike.items():
        more = f" and {len(subjects) - SUBJECTS} more" if len(subjects) > SUBJECTS else ""
        yield f"{', '.join(subjects[:SUBJECTS])}{more}: {place}: Warren {warren}, RabbitMQ {reference}"
