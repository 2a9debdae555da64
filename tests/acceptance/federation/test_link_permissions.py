"""Rights of a link: those of the user who set its upstream."""

from collections.abc import Iterator

import pytest

from tests.support.federation import Place
from tests.support.polling import until

pytestmark = pytest.mark.sockets

LINKS = "^federation: .*|^fed"


@pytest.fixture
def maker(up: Place, down: Place) -> Iterator[str]:
    """A policymaker of the downstream vhost, who may read one exchange of the other vhost."""
    name = f"maker-{down.vhost}"
    down.site.add_user(name, {down.vhost: ("", "^fed", ""), up.vhost: (LINKS, LINKS, "^federation: .*|^fed")},
                       ("policymaker",))  # fmt: skip
    yield name
    if down.site.node.users.get(name) is not None:
        down.act(down.site.node.users.delete, name)


def upstream(down: Place, user: str, uri: str) -> None:
    """Set by that user, and asked for by a policy."""
    value = {"uri": uri, "reconnect-delay": 0.1}

    def put() -> None:
        with down.site.host.acting(user):
            down.site.node.parameters.set(down.vhost, "federation-upstream", "u", value)

    down.site.loop.call(put)
    down.policy("^(fed|own)", {"federation-upstream": "u"})


def error(down: Place, words: str) -> None:
    until(lambda: words in down.row()["error"], lambda: str(down.row()))


def permit(place: Place, user: str, configure: str, write: str, read: str) -> None:
    place.act(place.site.node.users.set_permission, user, place.vhost, configure, write, read)


def test_a_link_inside_may_do_what_the_user_may_who_set_its_upstream(up: Place, down: Place, maker: str) -> None:
    down.ch.exchange("fed.x", "direct")
    here = down.listener("fed.x", "k")
    upstream(down, maker, up.inside)
    down.running()
    up.bound("fed.x", "k")
    up.ch.publish("fed.x", "k", b"flows")
    assert down.get(here).body == b"flows"
    (there,) = {one.user.name for one in down.site.connections("Federation link (upstream: u, policy: federate)")}
    assert there == maker


def test_a_link_inside_reads_nothing_that_user_may_not_read(up: Place, down: Place, maker: str) -> None:
    up.ch.declare("fed.q")
    up.ch.fill("fed.q", b"secret")
    permit(up, maker, "", "", "")
    down.ch.declare("fed.q")
    down.ch.consume("fed.q")
    upstream(down, maker, up.inside)
    error(down, "ACCESS_REFUSED")
    assert up.ready("fed.q") == 1


def test_a_link_feeds_nothing_that_the_user_may_not_write_to(up: Place, down: Place, maker: str) -> None:
    down.ch.exchange("own.x", "direct")
    down.listener("own.x", "k")
    upstream(down, maker, up.inside)
    error(down, f"user '{maker}', who set upstream 'u', has no write access to exchange 'own.x' in vhost")
    permit(up, maker, ".*", ".*", ".*")
    permit(down, maker, "", "own", "")
    down.running()
    permit(down, maker, "", "", "")
    error(down, "has no write access to exchange 'own.x'")


def test_a_link_does_not_feed_a_topic_exchange_of_which_its_user_may_not_write_every_topic(
    up: Place, down: Place, maker: str
) -> None:
    """The routing keys come from upstream."""
    down.ch.exchange("fed.x", "topic")
    down.ch.exchange("fed.direct", "direct")
    users = down.site.node.users
    for exchange in ("fed.x", "fed.direct"):
        down.act(users.set_topic_permission, maker, down.vhost, exchange, "^ok", "")
    upstream(down, maker, up.inside)

    def status(exchange: str) -> str:
        rows = [row for row in down.site.rows() if (row["vhost"], row["name"]) == (down.vhost, exchange)]
        return " ".join(f"{row['status']} {row['error']}" for row in rows)

    until(lambda: "may not write every topic of exchange 'fed.x'" in status("fed.x"), lambda: status("fed.x"))
    until(lambda: "running" in status("fed.direct"), lambda: status("fed.direct"))
    down.act(users.set_topic_permission, maker, down.vhost, "fed.x", ".*", "")
    until(lambda: "running" in status("fed.x"), lambda: status("fed.x"))
    down.act(users.set_topic_permission, maker, down.vhost, "fed.x", "^ok", "")
    until(lambda: "may not write every topic of exchange 'fed.x'" in status("fed.x"), lambda: status("fed.x"))


def test_a_link_whose_user_is_gone_says_so(up: Place, down: Place, maker: str) -> None:
    down.ch.exchange("fed.x", "direct")
    upstream(down, maker, up.inside)
    down.running()
    down.act(down.site.node.users.delete, maker)
    error(down, f"user '{maker}', who set upstream 'u', does not exist any more")


def test_an_administrator_who_sets_it_again_vouches_for_it(up: Place, down: Place, maker: str) -> None:
    down.ch.exchange("own.x", "direct")
    upstream(down, maker, up.inside)
    error(down, "has no write access")
    upstream(down, "guest", up.inside)
    down.running()


@pytest.mark.parametrize("login", ["guest:guest@", ""])
def test_a_user_who_may_log_in_from_this_machine_only_is_not_for_everybodys_links(
    up: Place, down: Place, maker: str, login: str
) -> None:
    down.ch.exchange("fed.x", "direct")
    upstream(down, maker, f"amqp://{login}127.0.0.1:{up.site.port}/{up.vhost}")
    error(down, "user 'guest' can only log in from this machine")
    upstream(down, "guest", f"amqp://{login}127.0.0.1:{up.site.port}/{up.vhost}")
    down.running()
