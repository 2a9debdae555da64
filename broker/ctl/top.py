"""The screen of `warrenctl top`: queues, connections and federation links, with the keys of htop.

`Top` is the state of the screen, which keys change and requests fill; `watch` shows it on a terminal by curses. A list
is fetched as one page of the size of the screen, sorted and filtered by the node, so that very many queues take no
longer than a few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from . import command
from .errors import UNAVAILABLE, APIError, CommandError, NotFound, Unreachable

if TYPE_CHECKING:
    import curses

    from .call import Call, Item

REQUESTS_S = 10.0  # for all requests of one refresh
ROWS_LIMIT = 500  # of a page of the API
ROWS_PRINTED = 50  # without a terminal
WIDE, NAME_LEAST = 110, 12  # characters: of a screen with all columns, and of a column that takes what others leave
LAST = -1  # the cursor on the last row of a page that is fetched next
NORMAL, TITLE, SELECTED, ALARM, DIM = "normal", "title", "selected", "alarm", "dim"
CONFIRMED = "y"
WELL = (None, "running", "idle", "flowing", "paused")  # states of queues, connections and links
HELP = """\
Tab, 1 2 3          queues, connections, federation links
Up Down PgUp PgDn   choose a row; Home, End: the first and the last page
< >                 the column to sort by; I: in the other order
M, P                sort by memory or messages, or by rate
/ or F3, \\ or F4    show only names that contain a text; Enter ends, Esc removes it
k or F9             close the connection, or restart the link, after a question
Z                   stop or resume the refresh
h or F1 or ?        this help
q or F10            quit"""


class Column(NamedTuple):
    """A column: its title, width in characters, the field that it shows and is sorted by, and the text of a value.

    A negative width aligns to the left; 0 takes what the others leave. A `wide` one is only shown from WIDE on.
    """

    title: str
    width: int
    field: str
    text: Callable[[Any], str]
    wide: bool = False


def value(item: Item, path: str) -> Any:
    """Return the value at a path of keys with dots, or None."""
    return command.field(*path.split("."))(item)


def words(found: Any) -> str:
    """Return a text with `?` for each character that would control a terminal."""
    return "" if found is None else "".join(char if char.isprintable() else "?" for char in str(found))


def number(found: Any) -> str:
    """Return a number, above 100,000 with a unit: 7, 0.5, 99999, 1.2M, 350k."""
    if not isinstance(found, int | float):
        return ""
    if abs(found) < 100_000:
        return f"{found:.0f}" if found == int(found) or found >= 100 else f"{found:.1f}"
    return with_unit(found, 1000, "kMGTPE")


def size(found: Any) -> str:
    """Return bytes, from 1,024 on with a binary unit: 512, 1.5K, 20M."""
    if not isinstance(found, int | float):
        return ""
    return f"{found:.0f}" if found < 1024 else with_unit(found, 1024, "KMGTPE")


def with_unit(found: float, step: int, units: str) -> str:
    power = 0
    while found >= 999.5 and power < len(units):
        found, power = found / step, power + 1
    return f"{found:.3g}{units[power - 1]}"


def rate(name: str) -> str:
    return f"message_stats.{name}_details.rate"


@dataclass(frozen=True)
class View:
    """A list of objects: its title, path in the API, columns, the field with the name, and the first sort column.

    `whole`: the API does not sort and filter the list, so it is fetched whole.
    """

    title: str
    path: str
    columns: Sequence[Column]
    name: str
    sort: int
    by_size: int
    by_rate: int
    whole: bool = False


QUEUES = View(
    "Queues",
    "queues",
    (
        Column("VHOST", -10, "vhost", words, wide=True), Column("NAME", 0, "name", words),
        Column("TYPE", -7, "type", words, wide=True), Column("STATE", -8, "state", words),
        Column("READY", 6, "messages_ready", number), Column("UNACKED", 7, "messages_unacknowledged", number),
        Column("BYTES", 6, "message_bytes", size), Column("IN/s", 5, rate("publish"), number),
        Column("OUT/s", 6, rate("deliver_get"), number), Column("ACK/s", 6, rate("ack"), number, wide=True),
        Column("CONSUMERS", 10, "consumers", number),
    ),
    "name", sort=4, by_size=6, by_rate=7,
)  # fmt: skip
CONNECTIONS = View(
    "Connections",
    "connections",
    (
        Column("VHOST", -10, "vhost", words, wide=True), Column("NAME", 0, "name", words),
        Column("USER", -10, "user", words), Column("STATE", -8, "state", words),
        Column("CHANNELS", 9, "channels", number), Column("FROM/s", 7, "recv_oct_details.rate", size),
        Column("TO/s", 7, "send_oct_details.rate", size),
        Column("CLIENT", -14, "client_properties.product", words, wide=True),
    ),
    "name", sort=5, by_size=6, by_rate=5,
)  # fmt: skip
LINKS = View(
    "Federation links",
    "federation-links",
    (
        Column("VHOST", -10, "vhost", words, wide=True), Column("NAME", -20, "local", words),
        Column("UPSTREAM", -12, "upstream", words), Column("STATUS", -8, "status", words),
        Column("STATE", -8, "state", words, wide=True), Column("BACKLOG", 8, "backlog", number),
        Column("IN/s", 5, rate("publish"), number), Column("LAG ms", 6, "lag_ms", number, wide=True),
        Column("RETRIES", 7, "retries", number, wide=True), Column("REASON", 0, "why", words),
    ),
    "local", sort=3, by_size=5, by_rate=6, whole=True,
)  # fmt: skip
VIEWS = (QUEUES, CONNECTIONS, LINKS)


class Line(NamedTuple):
    text: str
    style: str = NORMAL


@dataclass
class Top:
    """The state of the screen. `key` and `refresh` change it; `lines` shows it."""

    call: Call
    view: View = QUEUES
    sort: int = QUEUES.sort
    reverse: bool = True
    page: int = 1
    pages: int = 1
    total: int = 0
    cursor: int = 0
    filter: str = ""
    typing: bool = False  # keys change the filter
    help: bool = False
    paused: bool = False
    message: str = ""
    question: tuple[str, Callable[[], object]] | None = None  # before a change, which `y` makes
    facts: list[Line] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    # Keys

    def key(self, key: str) -> bool:
        """Change the state as a key says; return False if it ends the screen.

        A key is a character, or the name that curses gives it, such as KEY_DOWN.
        """
        self.message = ""
        if self.question is not None:
            _, act = self.question
            self.question = None
            if key == CONFIRMED:
                self._try(act)
        elif self.typing:
            self._type(key)
        elif key in ("q", "KEY_F(10)"):
            return False
        else:
            self.help = key in ("h", "?", "KEY_F(1)") and not self.help
            self._command(key)
        return True

    def _type(self, key: str) -> None:
        if key in ("\n", "\r", "KEY_ENTER"):
            self.typing = False
        elif key == "\x1b":
            self.typing, self.filter = False, ""
        elif key in ("KEY_BACKSPACE", "\x7f", "\b"):
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key
        self.page, self.cursor = 1, 0

    def _command(self, key: str) -> None:
        shown = len(self.items)
        if key in ("\t", "KEY_BTAB"):
            self.show(VIEWS[(VIEWS.index(self.view) + (1 if key == "\t" else -1)) % len(VIEWS)])
        elif key in ("1", "2", "3"):
            self.show(VIEWS[int(key) - 1])
        elif key == "KEY_UP":
            if self.cursor:
                self.cursor -= 1
            elif self.page > 1:
                self.page, self.cursor = self.page - 1, LAST
        elif key == "KEY_DOWN":
            if self.cursor + 1 < shown:
                self.cursor += 1
            elif self.page < self.pages:
                self.page, self.cursor = self.page + 1, 0
        elif key in ("KEY_PPAGE", "KEY_HOME"):
            self.page, self.cursor = max(self.page - 1, 1) if key == "KEY_PPAGE" else 1, 0
        elif key in ("KEY_NPAGE", "KEY_END"):
            self.page, self.cursor = min(self.page + 1, self.pages) if key == "KEY_NPAGE" else self.pages, 0
        elif key in ("<", ">", ",", "."):
            self._sort_by((self.sort + (1 if key in ">." else -1)) % len(self.view.columns))
        elif key == "I":
            self.reverse = not self.reverse
        elif key in ("M", "P"):
            self._sort_by(self.view.by_size if key == "M" else self.view.by_rate)
        elif key in ("/", "\\", "KEY_F(3)", "KEY_F(4)"):
            self.typing = True
        elif key == "Z":
            self.paused = not self.paused
        elif key in ("k", "KEY_F(9)"):
            self._ask()

    def show(self, view: View) -> None:
        """Show another list from its beginning."""
        self.view, self.pages, self.filter, self.items = view, 1, "", []
        self._sort_by(view.sort)

    def _sort_by(self, column: int) -> None:
        """Sort by a column: numbers from the largest, texts from A."""
        self.sort, self.reverse = column, self.view.columns[column].width > 0
        self.page, self.cursor = 1, 0

    def _ask(self) -> None:
        """Ask whether the chosen connection is to be closed, or the chosen link to be restarted."""
        if not self.items:
            return
        call, item = self.call, self.items[self.cursor]
        if self.view is CONNECTIONS:
            name, reason = item["name"], {"X-Reason": "closed by warrenctl top"}
            self.question = (
                f"Close connection {words(name)}?", lambda: call.delete("connections/{name}", headers=reason, name=name)
            )  # fmt: skip
        elif self.view is LINKS:
            path = "federation-links/vhost/{of}/{id}/{at}/restart"
            of, link, at = item["vhost"], item["id"], item["node"]
            self.question = f"Restart the link of {item['local']}?", lambda: call.delete(path, of=of, id=link, at=at)
        else:
            self.message = "Only a connection can be closed, and only a link restarted, here."

    # Requests

    def _try(self, request: Callable[[], object]) -> None:
        """Make requests; the last line says why they have failed, if they have."""
        self.call.api.begin_deadline(REQUESTS_S)
        try:
            request()
        except APIError as error:
            self.message = f"The node refuses it: {words(error.reason)}"
        except (Unreachable, TimeoutError) as error:
            why = "it does not answer in time" if isinstance(error, TimeoutError) else words(error)
            self.message = f"No answer from the node, which is asked again: {why}"
        except (AttributeError, LookupError, TypeError, ValueError):
            self.message = "The answer is not one of the HTTP API."

    def refresh(self, rows: int) -> None:
        """Fetch the totals and the page of the list, of so many rows."""
        self._try(lambda: self._fetch(max(1, min(rows, ROWS_LIMIT))))

    def _fetch(self, rows: int) -> None:
        call = self.call
        self.facts = facts_of(call.get("nodes/{node}"), call.get("overview"))
        column = self.view.columns[self.sort].field
        if self.view.whole:
            self._cut([described(link) for link in call.list_of(self.view.path)], column, rows)
            return
        query = {"page_size": str(rows), "sort": column, "sort_reverse": str(self.reverse).lower()}
        query |= {"name": self.filter} if self.filter else {}
        try:
            answer = call.get(self.view.path, query | {"page": str(self.page)})
        except APIError as error:
            if isinstance(error, NotFound) or self.page == 1:
                raise
            self.page = 1  # there are fewer pages than before
            answer = call.get(self.view.path, query | {"page": "1"})
        self._fill(answer["items"], answer["page_count"], answer["filtered_count"])

    def _cut(self, items: list[Item], column: str, rows: int) -> None:
        """Sort, filter and cut a whole list."""

        def order(item: Item) -> tuple[bool, Any]:
            found = value(item, column)
            return found is not None, found if isinstance(found, int | float) else words(found)

        items = sorted(
            (one for one in items if self.filter.casefold() in str(one[self.view.name]).casefold()), key=order
        )
        if self.reverse:
            items.reverse()
        pages = -(-len(items) // rows)
        self.page = min(self.page, max(pages, 1))
        self._fill(items[(self.page - 1) * rows : self.page * rows], pages, len(items))

    def _fill(self, items: list[Item], pages: int, total: int) -> None:
        self.items, self.pages, self.total = items, max(pages, 1), total
        last = max(len(items) - 1, 0)
        self.cursor = last if self.cursor == LAST else min(self.cursor, last)

    # The screen

    def rows(self, height: int) -> int:
        """Return how many rows of the list a screen has."""
        return max(1, height - len(self.facts or "1234") - 4)

    def lines(self, width: int, height: int) -> list[Line]:
        """Return the lines of a screen, none of them longer than its width."""
        tabs = "  ".join(f"[{view.title}]" if view is self.view else view.title for view in VIEWS)
        shown = [*self.facts, Line(""), Line(f"{tabs}    {self._place()}")]
        if self.help:
            shown += [Line(text) for text in HELP.splitlines()]
        else:
            columns = self._columns(width)
            shown.append(Line(" ".join(cell(self._title(column), wide) for column, wide in columns), TITLE))
            for place, item in enumerate(self.items[: self.rows(height)]):
                text = " ".join(cell(column.text(value(item, column.field)), wide) for column, wide in columns)
                shown.append(Line(text, SELECTED if place == self.cursor else style_of(item)))
            if not self.items:
                shown.append(Line("none" if not self.filter else f"none with '{self.filter}' in its name", DIM))
        shown = shown[: max(height - 1, 0)]
        shown += [Line("")] * (height - 1 - len(shown))
        return [Line(text[: max(width - 1, 0)].rstrip(), style) for text, style in [*shown, self._last()]]

    def _place(self) -> str:
        place = f"{self.total:,}" + (f", page {self.page} of {self.pages}" if self.pages > 1 else "")
        place += f", with '{self.filter}'" if self.filter else ""
        return place + (", not refreshed" if self.paused else "")

    def _columns(self, width: int) -> list[tuple[Column, int]]:
        """Return the columns that a screen shows, with their widths."""
        columns = [column for column in self.view.columns if width >= WIDE or not column.wide]
        left = width - 1 - sum(abs(column.width) + 1 for column in columns)
        return [(column, column.width or -max(left, NAME_LEAST)) for column in columns]

    def _title(self, column: Column) -> str:
        is_sorted = self.view.columns.index(column) == self.sort
        return column.title + ("v" if self.reverse else "^") * is_sorted

    def _last(self) -> Line:
        if self.question is not None:
            return Line(f"{self.question[0]} y: yes, any other key: no", ALARM)
        if self.typing:
            return Line(f"Names with: {self.filter}_", TITLE)
        if self.message:
            return Line(self.message, ALARM)
        return Line("F1 Help  Tab Lists  F4 Filter  < > Sort  I Invert  F9 Close  Z Pause  F10 Quit", TITLE)


def cell(text: str, width: int) -> str:
    """Return a text of this width; one that is aligned to the left ends with `~` if it is too long."""
    if width > 0:
        return text.rjust(width)
    return text.ljust(-width) if len(text) <= -width else text[: -width - 1] + "~"


def described(link: Item) -> Item:
    """Return a link with `local`, the name of its exchange or queue, and `why`, the reason of its status."""
    local = f"{link['type']} {link.get(link['type'], '')}"
    return link | {"local": local, "why": link.get("error") or link.get("reason") or ""}


def style_of(item: Item) -> str:
    is_well = item.get("state") in (None, "running", "idle", "flowing", "paused") and item.get("status") in (
        None,
        "running",
    )
    return NORMAL if is_well else ALARM


def facts_of(node: Item, overview: Item) -> list[Line]:
    """Return the lines about the node: what it is, memory and disk, totals and rates."""
    seconds = int(node["uptime"]) // 1000
    days, rest = divmod(seconds, 86_400)
    up = (f"{days} d " if days else "") + f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    product = f"{overview.get('product_name') or 'RabbitMQ'} {overview.get('product_version', '')}".rstrip()
    memory, disk = bool(node.get("mem_alarm")), bool(node.get("disk_free_alarm"))
    alarms = [f"{name} ALARM" for name, is_set in (("MEMORY", memory), ("DISK", disk)) if is_set]
    limits = (
        f"Memory {size(node['mem_used'])} of {size(node['mem_limit'])}   "
        f"Disk free {size(node['disk_free'])}, limit {size(node['disk_free_limit'])}   {'  '.join(alarms)}"
    )
    objects, messages = overview["object_totals"], overview.get("queue_totals", {})
    stats = overview.get("message_stats", {})
    rates = ", ".join(
        f"{word} {number(value(stats, f'{name}_details.rate') or 0)}/s"
        for word, name in (("in", "publish"), ("out", "deliver_get"), ("acknowledged", "ack"))
    )
    return [
        Line(f"{node['name']}   {product}   up {up}"),
        Line(limits.rstrip(), ALARM if alarms else NORMAL),
        Line(
            f"{objects['connections']:,} connections, {objects['channels']:,} channels, {objects['queues']:,} queues,"
            f" {objects['consumers']:,} consumers"
        ),
        Line(
            f"Messages {number(messages.get('messages_ready', 0))} ready,"
            f" {number(messages.get('messages_unacknowledged', 0))} unacknowledged   {rates}"
        ),
    ]


def printed(call: Call, width: int) -> list[str]:
    """Return the lines of each list for a reader that is no terminal."""
    top, lines = Top(call), []
    for view in VIEWS:
        top.show(view)
        top.refresh(ROWS_PRINTED)
        rows = [line.text for line in top.lines(width, len(top.items) + 8)[:-1]]
        lines += rows if view is QUEUES else ["", *rows[len(top.facts) + 1 :]]
    return [*lines, top.message] if top.message else lines


def watch(call: Call, interval_s: float) -> None:
    """Show the screen on the terminal until a key ends it. Raises CommandError (69) if the terminal cannot do that."""
    try:
        import curses
    except ImportError:
        raise CommandError(UNAVAILABLE, "this Python has no module curses") from None
    try:
        curses.wrapper(run, Top(call), interval_s)
    except curses.error as error:
        raise CommandError(UNAVAILABLE, f"this terminal cannot show it: {error}") from None
    except KeyboardInterrupt:
        return


def run(screen: curses.window, top: Top, interval_s: float) -> None:
    """Refresh and show the screen, and read keys, until one ends it."""
    import curses
    import time

    styles = styles_of_terminal()
    curses.set_escdelay(25)  # milliseconds, after which Esc is a key and no sequence
    due_s = 0.0
    while True:
        height, width = screen.getmaxyx()
        if not top.paused and top.question is None and time.monotonic() >= due_s:
            top.refresh(top.rows(height))
            due_s = time.monotonic() + interval_s
        screen.erase()
        for row, (text, style) in enumerate(top.lines(width, height)):
            with suppress(curses.error):  # characters of two columns do not fit, or the screen is smaller now
                screen.addstr(row, 0, text.ljust(width - 1) if style in (TITLE, SELECTED) else text, styles[style])
        screen.refresh()
        screen.timeout(max(1, int((due_s - time.monotonic()) * 1000)) if not top.paused else -1)
        try:
            pressed = screen.get_wch()
        except curses.error:  # no key in that time
            continue
        key = pressed if isinstance(pressed, str) else curses.keyname(pressed).decode()
        if key == "KEY_RESIZE":
            continue
        if not top.key(key):
            return
        due_s = 0.0


def styles_of_terminal() -> dict[str, int]:
    """Return the attributes of curses by style."""
    import curses

    red = curses.A_BOLD
    curses.curs_set(0)
    if curses.has_colors():
        curses.use_default_colors()
        curses.init_pair(1, curses.COLOR_RED, -1)
        red |= curses.color_pair(1)
    return {
        NORMAL: 0,
        TITLE: curses.A_REVERSE,
        SELECTED: curses.A_BOLD | curses.A_REVERSE,
        ALARM: red,
        DIM: curses.A_DIM,
    }
