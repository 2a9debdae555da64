"""The pictures of docs/topologies.md, drawn from the table below: `python docs/images/topologies.py` writes them here.

Points are in pixels. A link is `from-to`, or `from-to:label`; links in both directions are drawn beside each other.
"""

import math
from pathlib import Path
from typing import NamedTuple

RADIUS, MARGIN, GAP, APART = 28, 40, 6, 8


class Picture(NamedTuple):
    brokers: dict[str, tuple[int, int]]
    links: str


PICTURES = {
    "pair": Picture({"a": (0, 0), "b": (240, 0)}, "a-b b-a"),
    "complete": Picture({"a": (0, 150), "b": (120, 0), "c": (240, 150)}, "a-b b-a a-c c-a b-c c-b"),
    "tree": Picture({"a": (180, 0), "b": (90, 110), "c": (270, 110), "d": (0, 220), "e": (180, 220)},
                    "a-b a-c b-d b-e"),
    "ring": Picture({"a": (0, 0), "b": (170, 0), "c": (170, 150), "d": (0, 150)}, "a-b b-c c-d d-a"),
    "set": Picture({"a": (0, 0), "b": (0, 130), "c": (330, 65)}, "a-c:federated.news b-c:world"),
    "queues": Picture({"a": (0, 0), "b": (330, 0)}, "a-b:work.orders b-a"),
    "regions": Picture({"a": (0, 0), "b": (330, 0)}, "a-b:80_ms"),
    "shards": Picture({"s1": (0, 0), "s2": (330, 0)}, "s1-s2:half_of_the_keys s2-s1"),
}  # fmt: skip


def arrow(start: tuple[int, int], end: tuple[int, int], label: str, beside: bool) -> str:
    """An arrow between two circles, and its label above it."""
    length = math.dist(start, end)
    x, y = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    off = APART if beside else 0
    from_x, from_y = start[0] + x * RADIUS - y * off, start[1] + y * RADIUS + x * off
    to_x, to_y = end[0] - x * (RADIUS + GAP) - y * off, end[1] - y * (RADIUS + GAP) + x * off
    line = f'<path class="link" d="M{from_x:.1f} {from_y:.1f}L{to_x:.1f} {to_y:.1f}" marker-end="url(#head)"/>'
    if not label:
        return line
    at_x, at_y = (from_x + to_x) / 2, (from_y + to_y) / 2 + (18 if beside else -8)  # two arrows have one label
    return line + f'\n<text class="label" x="{at_x:.1f}" y="{at_y:.1f}">{label.replace("_", " ")}</text>'


def draw(picture: Picture) -> str:
    """The picture as SVG."""
    width = max(x for x, _ in picture.brokers.values()) + 2 * MARGIN
    height = max(y for _, y in picture.brokers.values()) + 2 * MARGIN
    parts = []
    names = sorted(picture.brokers, key=len, reverse=True)
    links = []
    for text in picture.links.split():
        ends, _, label = text.partition(":")
        source = next(name for name in names if ends.startswith(f"{name}-"))
        links.append((source, ends.removeprefix(f"{source}-"), label))
    for source, target, label in links:
        beside = any((target, source) == link[:2] for link in links)
        parts.append(arrow(picture.brokers[source], picture.brokers[target], label, beside))
    for name, (x, y) in picture.brokers.items():
        parts.append(f'<circle cx="{x}" cy="{y}" r="{RADIUS}"/>\n<text x="{x}" y="{y + 5}">{name}</text>')
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-MARGIN} {-MARGIN} {width} {height}" width="{width}" height="{height}">
<style>
circle {{ fill: #e8eef4; stroke: #46627f; stroke-width: 2 }}
text {{ font: 14px sans-serif; fill: #1d2b3a; text-anchor: middle }}
.label {{ font-size: 12px; fill: #6b8199 }}
.link {{ stroke: #6b8199; stroke-width: 2; fill: none }}
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8z" fill="#6b8199"/></marker></defs>
{chr(10).join(parts)}
</svg>
"""  # noqa: E501


def main() -> None:
    for name, picture in PICTURES.items():
        (Path(__file__).parent / f"federation-{name}.svg").write_text(draw(picture), encoding="utf-8")


if __name__ == "__main__":
    main()
