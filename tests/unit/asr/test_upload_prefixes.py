"""Digests of uploads' beginnings: two calls never share one, and no more are kept than allowed."""

import hashlib

from services.asr.upload_prefixes import Prefix, Prefixes


def sha1_of(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def begun(prefixes: Prefixes, *parts: bytes) -> Prefix:
    """Commit parts one after another; the keys are what the parts hold."""
    prefix = prefixes.find((), 0)
    for part in parts:
        longer = prefix.followed_by(part.decode(), part)
        prefixes.lengthened(prefix, longer)
        prefix = longer
    return prefix


def test_what_is_committed_is_found_by_its_parts_with_its_hash() -> None:
    prefixes = Prefixes()
    begun(prefixes, b"one", b"two")
    found = prefixes.find(["one", "two"], 6)
    assert (found.size_bytes, found.sha1) == (6, sha1_of(b"onetwo"))


def test_other_parts_that_end_with_the_same_one_have_another_hash() -> None:
    prefixes = Prefixes()
    begun(prefixes, b"one", b"end")
    assert prefixes.find(["two", "end"], 6).sha1 == ""


def test_an_empty_beginning_is_always_known() -> None:
    assert Prefixes().find((), 0).sha1 == sha1_of(b"")


def test_what_follows_an_unknown_beginning_is_unknown_too() -> None:
    prefixes = Prefixes()
    prefix = prefixes.find(["elsewhere"], 9)
    longer = prefix.followed_by("one", b"one")
    prefixes.lengthened(prefix, longer)
    assert (longer.size_bytes, longer.sha1) == (12, "")
    assert prefixes.find(["elsewhere", "one"], 12).sha1 == ""


def test_of_two_calls_that_go_on_from_one_beginning_neither_changes_the_others_hash() -> None:
    prefixes = Prefixes()
    begun(prefixes, b"one")
    calls = [prefixes.find(["one"], 3) for _ in range(2)]
    mine, yours = (
        call.followed_by(part.decode(), part) for call, part in zip(calls, (b"a", b"b"), strict=True)
    )
    assert (mine.sha1, yours.sha1) == (sha1_of(b"onea"), sha1_of(b"oneb"))
    assert prefixes.find(["one"], 3).sha1 == sha1_of(b"one")


def test_each_upload_keeps_one_hash_and_the_oldest_go_first() -> None:
    prefixes = Prefixes(most=2)
    begun(prefixes, b"one", b"two", b"three")
    begun(prefixes, b"four")
    assert prefixes.find(["one", "two"], 6).sha1 == ""
    assert prefixes.find(["one", "two", "three"], 11).sha1 != ""
    begun(prefixes, b"five")
    known = [bool(prefixes.find(keys, 0).sha1) for keys in (["one", "two", "three"], ["four"], ["five"])]
    assert known == [True, False, True]
