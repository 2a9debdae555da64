"""The report of a comparison: counts, known differences with their reasons, and new ones."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .documents import Difference
from .known import KNOWN, Known, reason_of

SUBJECTS = 3  # routes or commands that a line names


@dataclass(frozen=True)
class Totals:
    """The differences: `known` by reason, `new` without one."""

    compared: int
    equal: int
    known: dict[str, list[Difference]]
    new: list[Difference]

    @classmethod
    def of(cls, compared: int, found: Iterable[Difference], table: tuple[Known, ...] = KNOWN) -> "Totals":
        """Return the totals of `compared` answers with these differences."""
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
    """Yield a line for each group of equal differences at the same place."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for one in differences:
        alike.setdefault((one.place, one.warren, one.reference), []).append(one.subject)
    for (place, warren, reference), subjects in alike.items():
        more = f" and {len(subjects) - SUBJECTS} more" if len(subjects) > SUBJECTS else ""
        yield f"{', '.join(subjects[:SUBJECTS])}{more}: {place}: Warren {warren}, RabbitMQ {reference}"
