"""Users: login, permissions, and notification of observers."""

from functools import partial

import pytest

from tests.support.hashing import FakeHashing, fake_hash
from tests.support.session import new_node
from tests.support.users import set_tags
from warren.broker.amqp.errors import Invalid, Unknown
from warren.broker.core.access.passwords import ARGON2ID, SHA256, PasswordRules, hash_password
from warren.broker.core.access.users import User, Users
from warren.broker.core.definitions.restore import restore
from warren.broker.core.exchanges.route_cache import RouteCache
from warren.broker.core.messages.message import ByteCount
from warren.broker.core.metadata.records import Change, Definitions, StoredPermission, StoredTopicPermission, StoredUser
from warren.broker.core.vhost.observer import Observer


class ChangeLog(Observer):
    """An observer that records changes in short."""

    def __init__(self) -> None:
        self.changes: list[tuple[bool, str]] = []

    def configured(self, change: Change) -> None:
        record = change.record
        if isinstance(record, StoredUser):
            shown = f"{record.name} {record.hashing_algorithm} {','.join(record.tags)}"
        elif isinstance(record, StoredPermission):
            shown = f"{record.user} {record.vhost} {record.configure} {record.write} {record.read}"
        else:
            assert isinstance(record, StoredTopicPermission)
            shown = f"{record.user} {record.vhost} {record.exchange} {record.write} {record.read}"
        self.changes.append((change.put, shown))

    def take(self) -> list[tuple[bool, str]]:
        taken, self.changes = self.changes, []
        return taken


def users(*names: str, loopback_only: frozenset[str] = frozenset(), hashing: FakeHashing | None = None) -> Users:
    made = Users(loopback_only, hashing)
    for name in names:
        made.add(name, hash_password(f"{name}'s", b"salt"))
    return made


def login(known: Users, name: str, password: bytes, loopback: bool = True) -> User | None:
    """Log in; the answer must be immediate."""
    answers: list[User | None] = []
    known.authenticate(name, password, loopback, answers.append)
    (answer,) = answers
    return answer


def test_a_user_is_let_in_with_the_right_password_alone() -> None:
    known = users("guest", "other")
    assert login(known, "guest", b"guest's") is known.get("guest") is not None
    for name, password in (("guest", b"other's"), ("guest", b""), ("nobody", b"guest's"), ("nobody", b""), ("", b"")):
        assert login(known, name, password) is None


def test_an_empty_password_lets_nobody_in_even_where_it_is_the_right_one() -> None:
    known = users()
    known.add("open", hash_password("", b"salt"))
    known.add("none")
    assert (
        login(known, "open", b"") is None and login(known, "none", b"") is None and login(known, "none", b"x") is None
    )


def test_some_users_come_from_this_machine_alone() -> None:
    known = users("guest", "other", loopback_only=frozenset(("guest",)))
    assert login(known, "guest", b"guest's", True) is not None
    assert login(known, "guest", b"guest's", False) is None
    assert login(known, "other", b"other's", False) is not None
    assert known.admitted("guest", False) is None and known.admitted("nobody", True) is None


def test_a_refusal_costs_one_argon2id_whatever_the_reason() -> None:
    hashing = FakeHashing()
    known = users("guest", "plain", loopback_only=frozenset(("guest",)), hashing=hashing)
    known.add("argon", fake_hash(b"right"), (), ARGON2ID)
    known.add("none")
    refused = [("nobody", b"x", True), ("plain", b"wrong", True), ("argon", b"wrong", True), ("argon", b"", True),
               ("guest", b"guest's", False), ("none", b"x", True), ("plain", b"", True)]  # fmt: skip
    for number, (name, password, loopback) in enumerate(refused, 1):
        assert login(known, name, password, loopback) is None
        assert hashing.asked == number
    assert login(known, "argon", b"right") is known.get("argon")


def test_a_login_that_waits_is_refused_when_the_password_has_changed_meanwhile() -> None:
    hashing = FakeHashing()
    known = users(hashing=hashing)
    known.add("argon", fake_hash(b"right"), (), ARGON2ID)
    answers: list[User | None] = []
    hashing.slow = True
    known.authenticate("argon", b"right", True, answers.append)
    assert not answers
    known.change_password("argon", fake_hash(b"other"), ARGON2ID)
    hashing.answer()
    assert answers == [None]
    known.authenticate("argon", b"other", True, answers.append)
    hashing.answer()
    assert answers == [None, known.get("argon")]


def test_the_hash_of_rabbitmq_becomes_argon2id_at_the_first_login() -> None:
    hashing = FakeHashing()
    known = users("guest", hashing=hashing)
    hashing.slow = True
    assert login(known, "guest", b"guest's") is not None and login(known, "guest", b"guest's") is not None
    assert len(hashing.waiting) == 1, "twice would be once too often"
    hashing.answer()
    user = known.find("guest")
    assert (user.hashing_algorithm, user.password_hash) == (ARGON2ID, fake_hash(b"guest's"))


def test_a_hash_is_kept_if_so_configured_or_if_it_has_changed_meanwhile() -> None:
    hashing = FakeHashing()
    as_rabbitmq = Users(frozenset(), hashing, algorithm=SHA256)
    as_rabbitmq.add("guest", hash_password("guest", b"salt"))
    login(as_rabbitmq, "guest", b"guest")
    assert as_rabbitmq.find("guest").hashing_algorithm == SHA256
    known = users("guest", hashing=hashing)
    hashing.slow = True
    login(known, "guest", b"guest's")
    known.clear_password("guest")
    hashing.answer()
    assert known.find("guest").password_hash == b""


def test_a_plain_password_is_hashed_as_new_ones_are_if_the_rules_allow_it() -> None:
    hashing = FakeHashing()
    known = Users(frozenset(), hashing, PasswordRules(min_length=4))
    known.add("u")
    known.hash_password("long", partial(known.change_password, "u"))
    assert login(known, "u", b"long") is known.get("u") is not None
    with pytest.raises(Invalid, match="minimum required password length"):
        known.hash_password("sml", lambda password_hash, algorithm: None)


def test_restoring_notifies_no_observer_and_reports_what_cannot_be_restored() -> None:
    node = new_node()
    definitions = Definitions()
    definitions.users.append(StoredUser("u", b"hash", ("b", "a"), "argon2id", {"max-channels": 3}))
    definitions.permissions.append(StoredPermission("u", "/", "c", "w", "r"))
    definitions.topic_permissions += [
        StoredTopicPermission("u", "/", "amq.topic", "^{username}$", ""),
        StoredTopicPermission("u", "/", "bad", "(", ""),
        StoredTopicPermission("nobody", "/", "amq.topic", "", ""),
    ]
    restored = restore(node, definitions)
    user = node.users.find("u")
    stored = user.stored()
    assert (stored.password_hash, stored.tags, stored.hashing_algorithm) == (b"hash", ("b", "a"), ARGON2ID)
    assert stored.limits == {"max-channels": 3}
    assert user.permissions["/"].allows("write", "w")
    assert list(user.topic_permissions) == ["/"] and list(user.topic_permissions["/"]) == ["amq.topic"]
    assert user.topic_permissions["/"]["amq.topic"].allows("write", "u")
    assert [loss.text.partition(":")[0] for loss in restored.lost] == [
        "topic permission on exchange 'bad' of user 'u' in vhost '/'",
        "topic permission on exchange 'amq.topic' of user 'nobody' in vhost '/'",
    ]


def test_observers_are_notified_of_every_change() -> None:
    node = new_node()
    log = ChangeLog()
    node.observers.add(log)
    known = node.users
    known.add("u", b"", ("administrator", "mine", "mine"))
    known.change_password("u", fake_hash(b"x"), ARGON2ID)
    known.clear_password("u")
    set_tags(known, "u", ("monitoring",))
    assert log.take() == [
        (True, f"u {SHA256} administrator,mine"),
        (True, f"u {ARGON2ID} administrator,mine"),
        (True, f"u {ARGON2ID} administrator,mine"),
        (True, f"u {ARGON2ID} monitoring"),
    ]
    known.set_permission("u", "/", "c", "w", "r")
    known.set_topic_permission("u", "/", "amq.topic", "w", "r")
    known.set_topic_permission("u", "/", "other", "w", "r")
    known.clear_topic_permission("u", "/", "amq.topic")
    known.clear_topic_permission("u", "/", "amq.topic")
    known.clear_topic_permission("u", "/")
    known.clear_permission("u", "/")
    known.clear_permission("u", "/")
    assert log.take() == [
        (True, "u / c w r"),
        (True, "u / amq.topic w r"),
        (True, "u / other w r"),
        (False, "u / amq.topic w r"),
        (False, "u / other w r"),
        (False, "u / c w r"),
    ]


def test_deleting_a_user_or_a_vhost_deletes_its_permissions() -> None:
    node = new_node()
    node.add_vhost("other")
    for user in ("u", "v"):
        node.users.add(user)
        for vhost in ("/", "other"):
            node.users.set_permission(user, vhost, "c", "w", "r")
            node.users.set_topic_permission(user, vhost, "amq.topic", "w", "r")
    log = ChangeLog()
    node.observers.add(log)
    node.vhosts["/"].routes |= {"u": RouteCache(ByteCount()), "v": RouteCache(ByteCount())}
    node.users.delete("u")
    assert node.users.get("u") is None and list(node.vhosts["/"].routes) == ["v"]
    assert sorted(log.take()) == [
        (False, "u / amq.topic w r"),
        (False, "u / c w r"),
        (False, "u other amq.topic w r"),
        (False, "u other c w r"),
        (False, f"u {SHA256} "),
    ]
    assert sum(node.users.drop_vhost("other")) == 2
    assert log.take() == [(False, "v other c w r"), (False, "v other amq.topic w r")]
    assert list(node.users.find("v").permissions) == ["/"]


def test_a_deletion_takes_permissions_that_are_given_meanwhile_and_not_another_user_of_the_name() -> None:
    node = new_node()
    known = node.users
    known.add("u")
    known.set_permission("u", "/", "", "", "")
    deletion = known.deletion(known.find("u"))
    assert next(deletion) and not known.find("u").permissions
    known.set_permission("u", "/", "", "", "")
    known.set_topic_permission("u", "/", "amq.topic", "", "")
    log = ChangeLog()
    node.observers.add(log)
    assert len(list(deletion)) == 3 and known.get("u") is None
    assert [put for put, _ in log.take()] == [False] * 3
    deletion = known.deletion(known.add("u"))
    known.delete("u")
    another = known.add("u")
    assert len(list(deletion)) == 1 and known.get("u") is another


def test_what_is_wrong_is_refused_and_changes_nothing() -> None:
    node = new_node()
    known = node.users
    log = ChangeLog()
    node.observers.add(log)
    for unknown in (
        lambda: known.delete("nobody"),
        lambda: known.change_password("nobody", b""),
        lambda: known.clear_password("nobody"),
        lambda: set_tags(known, "nobody", ()),
        lambda: known.set_permission("nobody", "/", "", "", ""),
        lambda: known.set_permission("guest", "nowhere", "", "", ""),
        lambda: known.clear_permission("nobody", "/"),
        lambda: known.clear_permission("guest", "nowhere"),
        lambda: known.set_topic_permission("nobody", "/", "x", "", ""),
        lambda: known.set_topic_permission("guest", "nowhere", "x", "", ""),
        lambda: known.clear_topic_permission("nobody", "/"),
    ):
        with pytest.raises(Unknown, match="does not exist"):
            unknown()
    for invalid in (
        lambda: known.add("guest"),
        lambda: known.add(""),
        lambda: known.add("é" * 128),
        lambda: known.add("new", b"no hash"),
        lambda: known.add("new", b"", [str(number) for number in range(33)]),
        lambda: known.change_password("guest", b"no hash"),
        lambda: known.set_permission("guest", "/", ".*", "(", ".*"),
        lambda: known.set_topic_permission("guest", "/", "amq.topic", "", "["),
        lambda: known.set_topic_permission("guest", "/", "x" * 256, "", ""),
        lambda: known.set_topic_permission("guest", "/", "\ud800", "", ""),  # a lone surrogate, which JSON can have
        lambda: known.set_topic_permission("guest", "/", "x", "\ud800", ""),
        lambda: known.set_permission("guest", "/", "", "", "\ud800"),
        lambda: set_tags(known, "guest", ["\ud800"]),
    ):
        with pytest.raises(Invalid):
            invalid()
    assert not log.changes and [user.name for user in known.all()] == ["guest"]
    assert known.find("guest").permissions["/"].write == ".*" and not known.find("guest").topic_permissions
