"""The charts: colours, axes, legends and times."""

import itertools
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.broker_process import BrokerProcess
from tests.support.browser import UI
from warren.plugins import web

COLOUR = re.compile(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)")
SERIES = 11  # the chart of message rates has as many
LEAST_CONTRAST = 3.0  # of parts of a drawing with what is behind them (WCAG 2, 1.4.11)
LEAST_DISTANCE = 0.1  # of two colours in OKLab: a difference just noticed is about 0.02
# A chart in place of the page; its axis texts are those that are drawn on the canvas.
CHART = """async ({ labels, data, texts, format }) => {
  window.drawn = [];
  const fillText = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
    drawn.push(text);
    fillText.call(this, text, ...more);
  };
  const { Chart, COUNT_STEPS } = await import("/web/chart.js");
  const formats = await import("/web/format.js");
  const chart = new Chart("Some", labels, { format: formats[format], steps: COUNT_STEPS, stored: false });
  document.querySelector("main").replaceChildren(chart.element);
  chart.plot(data, texts);
}"""


def schemes() -> dict[str, tuple[str, str]]:
    """The colours of the style sheet by name: in the light and in the dark scheme."""
    text = Path(web.__file__).with_name("style.css").read_text(encoding="utf-8")
    return {name: (light, dark) for name, light, dark in COLOUR.findall(text)}


def linear(colour: str) -> list[float]:
    """Red, green and blue as amounts of light."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one: str, other: str) -> float:
    lights = [
        sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))
        for colour in (one, other)
    ]
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def oklab(colour: str) -> list[float]:
    red, green, blue = linear(colour)
    cones = (
        (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3),
        (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3),
        (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3),
    )
    rows = (
        (0.2104542553, 0.7936177850, -0.0040720468),
        (1.9779984951, -2.4285922050, 0.4505937099),
        (0.0259040371, 0.7827717662, -0.8086757660),
    )
    return [sum(factor * cone for factor, cone in zip(row, cones, strict=True)) for row in rows]


def distance(one: str, other: str) -> float:
    return sum((a - b) ** 2 for a, b in zip(oklab(one), oklab(other), strict=True)) ** 0.5


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_the_colours_of_series_differ_from_each_other_and_from_what_is_behind_them(scheme: int) -> None:
    colours = {name: pair[scheme] for name, pair in schemes().items()}
    series = [colours[f"series-{number}"] for number in range(SERIES)] + [colours["series-quiet"]]
    assert [one for one in series if contrast(one, colours["card"]) < LEAST_CONTRAST] == []
    near = {pair for pair in itertools.combinations(series, 2) if distance(*pair) < LEAST_DISTANCE}
    assert near == set()


def draw(page: Page, labels: list[str], data: list[list[float]], form: str = "count") -> list[str]:
    """Draw a chart in place of the page; return the texts of its axes."""
    texts = [f"{values[-1]:g}" for values in data[1:]]
    page.evaluate(CHART, {"labels": labels, "data": data, "texts": texts, "format": form})
    expect(page.locator("main canvas")).to_be_visible()
    page.wait_for_function("drawn.length > 0")
    return list(page.evaluate("drawn"))


def test_an_axis_of_counts_has_whole_numbers(ui: UI) -> None:
    drawn = draw(ui.open("features").page, ["Ready"], [[100, 105, 110], [0, 1, 1]])
    numbers = [text for text in drawn if ":" not in text]
    assert numbers == ["0", "1"]


def test_the_time_of_one_sample_is_not_repeated_on_its_axis(ui: UI) -> None:
    drawn = draw(ui.open("features").page, ["Publish"], [[86400 + 3600], [5]])
    times = [text for text in drawn if ":" in text]
    assert times and len(times) == len(set(times))
    assert "01:00:00" in times


def test_series_that_are_zero_all_the_time_are_grey_and_last(ui: UI) -> None:
    labels = [f"line {number}" for number in range(SERIES)]
    values = [[0.0, 0.0] if number in (0, 3) else [0.0, 1.0 + number] for number in range(SERIES)]
    page = ui.open("features").page
    draw(page, labels, [[100, 105], *values])
    entries = page.locator(".legend li")
    last = [label for at, label in enumerate(labels) if at not in (0, 3)] + ["line 0", "line 3"]
    assert [text.strip().rpartition(" ")[0] for text in entries.all_inner_texts()] == last
    colours = page.locator(".legend .key").evaluate_all(
        "all => all.map((one) => getComputedStyle(one).backgroundColor)"
    )
    assert colours[-1] == colours[-2] not in colours[:-2]
    assert len(set(colours)) == SERIES - 1


@pytest.mark.parametrize(("locale", "zone"), [("en-US", "America/New_York"), ("de-DE", "Asia/Kolkata")])
def test_all_times_are_in_utc_with_24_hours(
    new_ui: Callable[..., UI], running: BrokerProcess, locale: str, zone: str
) -> None:
    client = running.connect()
    channel = client.channel()
    channel.declare("timed")
    page = new_ui(locale=locale, timezone_id=zone).sign_in().page
    at = datetime.fromtimestamp(86400 + 15 * 3600 + 7, UTC)
    formats = page.evaluate(
        """async (at) => {
          const { axisTime, clock, time } = await import("/web/format.js");
          const iso = new Date(at * 1000).toISOString();
          return [time(at * 1000), time(iso), clock(at * 1000), axisTime(at, 5), axisTime(at, 60)];
        }""",
        at.timestamp(),
    )
    assert formats == ["1970-01-02 15:00:07", "1970-01-02 15:00:07", "15:00:07", "15:00:07", "15:00"]
    expect(page.locator(".refreshed")).to_have_text(re.compile(r"^refreshed \d\d:\d\d:\d\d UTC$"))
    shown = page.locator(".refreshed").inner_text().split()[1]
    now = datetime.now(UTC)
    assert abs(int(shown[:2]) * 3600 + int(shown[3:5]) * 60 - now.hour * 3600 - now.minute * 60) % 86400 < 600
    drawn = draw(page, ["Ready"], [[at.timestamp() - 60, at.timestamp()], [1, 2]])
    assert "15:00:00" in drawn
    client.close()
