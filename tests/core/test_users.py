"""Who is who, and who may do what."""

import pytest

from broker.core.users import Permission, User, Users, hash_password, verify_password


def users(*names: str, loopback_only: frozenset[str] = frozenset()) -> Users:
    made = Users(loopback_only)
    for name in names:
        made.add(User(name, hash_password(f"{name}'s", b"salt"), frozenset()))
    return made


def test_the_hash_is_that_of_rabbitmq() -> None:
    # The example of RabbitMQ's guide on passwords: salt 908D C60A, password test12.
    known = b"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    assert hash_password("test12", bytes.fromhex("908DC60A")) == known
    assert verify_password(known, b"test12") and not verify_password(known, b"test13")


def test_a_user_is_let_in_with_the_right_password_alone() -> None:
    known = users("guest", "other")
    user = known.authenticate("guest", b"guest's", True)
    assert user is known.get("guest") is not None
    for name, password in (("guest", b"other's"), ("guest", b""), ("nobody", b"guest's"), ("nobody", b""), ("", b"")):
        assert known.authenticate(name, password, True) is None


def test_an_empty_password_lets_nobody_in_even_where_it_is_the_right_one() -> None:
    known = Users(frozenset())
    known.add(User("open", hash_password("", b"salt"), frozenset()))
    assert known.authenticate("open", b"", True) is None


def test_some_users_come_from_this_machine_alone() -> None:
    known = users("guest", "other", loopback_only=frozenset(("guest",)))
    assert known.authenticate("guest", b"guest's", True) is not None
    assert known.authenticate("guest", b"guest's", False) is None
    assert known.authenticate("other", b"other's", False) is not None
    assert known.admitted("guest", False) is None and known.admitted("nobody", True) is None


@pytest.mark.parametrize(
    "pattern, allowed, refused",
    [
        (".*", ["", "anything", "a\nb"], []),
        ("", [""], ["a", " "]),
        ("^a-", ["a-b"], ["b-a-", "A-b"]),
        ("a", ["bab"], ["b"]),
        ("^(amq\\.gen.*|amq\\.default)$", ["amq.default", "amq.gen-1"], ["amq.direct"]),
    ],
)
def test_a_permission_is_searched_for_in_the_name(pattern: str, allowed: list[str], refused: list[str]) -> None:
    permission = Permission(pattern, "^$", "^$")
    assert [name for name in allowed + refused if permission.allows("configure", name)] == allowed
    assert not permission.allows("write", "a") and not permission.allows("read", "a")
