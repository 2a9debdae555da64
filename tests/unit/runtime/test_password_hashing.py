"""Argon2id in its thread, with real hashes and a real loop."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from warren.broker.core.access.passwords import ARGON2ID, NOBODY, SHA256, check_hash, verify_password
from warren.broker.runtime import login_queue
from warren.broker.runtime.password_hashing import ThreadHashing


@pytest.fixture
def afters() -> list[str]:
    return []


@pytest.fixture
async def hashing(afters: list[str]) -> AsyncIterator[ThreadHashing]:
    hashing = ThreadHashing(asyncio.get_running_loop(), lambda: afters.append("after"), refused_s=0.0)
    yield hashing
    hashing.close()


async def verified(hashing: ThreadHashing, password_hash: bytes, password: bytes) -> bool:
    answer = asyncio.get_running_loop().create_future()
    hashing.verify(password_hash, password, answer.set_result)
    return bool(await answer)


async def hashed(hashing: ThreadHashing, password: bytes) -> bytes:
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    hashing.hash(password, ARGON2ID, answer.set_result)
    return await answer


async def test_what_was_hashed_is_verified_and_nothing_else(hashing: ThreadHashing, afters: list[str]) -> None:
    made = await hashed(hashing, b"secret")
    assert made != await hashed(hashing, b"secret"), "without salt"
    check_hash(made, ARGON2ID)
    assert await verified(hashing, made, b"secret")
    assert not await verified(hashing, made, b"secret ")
    for other in (NOBODY, b"", b"$argon2id$", b"*"):
        assert not await verified(hashing, other, b"secret")
    await asyncio.sleep(0)
    assert len(afters) == 8


async def test_rabbitmqs_algorithms_need_no_thread(hashing: ThreadHashing) -> None:
    answers: list[bytes] = []
    for _ in range(2):
        hashing.hash(b"secret", SHA256, answers.append)
    assert len(set(answers)) == 2 and all(verify_password(answer, b"secret") for answer in answers)


async def test_a_right_password_is_remembered_for_that_hash_alone(hashing: ThreadHashing) -> None:
    made, other = await hashed(hashing, b"secret"), await hashed(hashing, b"other")
    assert await verified(hashing, made, b"secret")
    answers: list[bool | None] = []
    hashing.verify(made, b"secret", answers.append)
    assert answers == [True], "at once"
    hashing.verify(made, b"other", answers.append)
    hashing.verify(other, b"secret", answers.append)
    assert len(answers) == 1
    assert not await verified(hashing, other, b"secret")
    assert answers == [True, False, False]


async def test_who_asks_the_same_meanwhile_gets_the_same_answer(hashing: ThreadHashing, afters: list[str]) -> None:
    made = await hashed(hashing, b"secret")
    answers = await asyncio.gather(*[verified(hashing, made, b"secret") for _ in range(20)])
    assert all(answers) and len(afters) == 2


async def test_no_more_wait_than_can_be_answered_in_time(hashing: ThreadHashing) -> None:
    """Callers beyond the limit learn that it was not checked, not that the password is wrong."""
    answers: list[bool | None] = []
    for number in range(login_queue.NAME_LIMIT + 1):
        hashing.verify(b"*", str(number).encode(), answers.append)
    assert not answers
    hashing.verify(b"*", b"one more", answers.append)
    assert answers == [None]
    hashing.verify(b"*", b"0", answers.append)
    assert len(answers) == 1, "it waits with the one that asked the same"


async def test_a_login_flood_leaves_the_loop_alone(hashing: ThreadHashing) -> None:
    loop = asyncio.get_running_loop()
    answers: list[bool | None] = []
    for number in range(5):
        hashing.verify(NOBODY, str(number).encode(), answers.append)
    turns = 0
    while len(answers) < 5:
        await asyncio.sleep(0)
        turns += 1
    assert turns > 20 and loop.is_running()
