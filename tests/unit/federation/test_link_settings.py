"""The settings of a link, from the definitions of an upstream and of a set."""

from warren.federation.link_settings import LinkSettings, link_settings

URI = "amqp://u:secret@h"


def test_an_upstream_that_says_nothing_has_the_defaults() -> None:
    assert link_settings("up", {"uri": URI}) == LinkSettings(
        upstream="up",
        uris=(URI,),
        exchange=None,
        queue=None,
        consumer_tag="federation-link-up",
        prefetch_count=1000,
        reconnect_delay_s=5.0,
        max_hops=1,
        expires_ms=None,
        message_ttl_ms=None,
        trust_user_id=False,
        ack_mode="on-confirm",
        queue_type="classic",
        bind_nowait=False,
        keeps=False,
        single_channel=False,
    )


def test_all_that_an_upstream_says_counts() -> None:
    found = link_settings(
        "up",
        {
            "uri": [URI, "amqp://other"],
            "exchange": "e",
            "queue": "q",
            "consumer-tag": "t",
            "prefetch-count": 5.0,
            "reconnect-delay": 0.5,
            "max-hops": 0,
            "expires": 10,
            "message-ttl": 0,
            "trust-user-id": True,
            "ack-mode": "no-ack",
            "queue-type": "quorum",
            "bind-nowait": True,
            "resource-cleanup-mode": "never",
            "channel-use-mode": "single",
        },
    )
    assert found.uris == (URI, "amqp://other")
    assert (found.exchange, found.queue, found.consumer_tag, found.prefetch_count) == ("e", "q", "t", 5)
    assert (found.reconnect_delay_s, found.max_hops, found.expires_ms, found.message_ttl_ms) == (0.5, 0, 10, 0)
    assert (found.trust_user_id, found.ack_mode, found.queue_type, found.bind_nowait) == (
        True,
        "no-ack",
        "quorum",
        True,
    )
    assert found.keeps and found.single_channel


def test_an_element_of_a_set_counts_before_its_upstream_but_for_the_uri() -> None:
    upstream = {"uri": URI, "exchange": "e", "max-hops": 2, "prefetch-count": 5}
    found = link_settings("up", upstream, {"upstream": "up", "exchange": "f", "max-hops": 3, "uri": "amqp://x"})
    assert (found.exchange, found.max_hops, found.prefetch_count, found.uris) == ("f", 3, 5, (URI,))


def test_settings_can_be_printed_without_their_uris() -> None:
    assert "secret" not in repr(link_settings("up", {"uri": URI}))


def test_a_link_has_only_what_means_something_to_its_kind() -> None:
    upstream = {"uri": URI, "exchange": "e", "queue": "q", "consumer-tag": "t", "max-hops": 3, "ack-mode": "on-publish"}
    plain = link_settings("up", upstream)
    exchange = plain.of_kind("exchange")
    assert (exchange.exchange, exchange.queue, exchange.max_hops, exchange.consumer_tag) == ("e", None, 3, "")
    queue = plain.of_kind("queue")
    assert (queue.exchange, queue.queue, queue.max_hops, queue.consumer_tag) == (None, "q", 1, "t")
    assert queue.ack_mode == exchange.ack_mode == "on-publish"
