"""Tokens of a key's shared budget that a server holds: asked for by slices, used up, given up when idle."""

from __future__ import annotations

from services.ingest.budget import Slices, Wish


def test_a_slice_serves_many_calls_before_the_bucket_is_asked_again() -> None:
    slices = Slices(per_second=200, burst=1000)
    assert slices.wishes({"a": 1}, 0.0) == [Wish("a", 0, 20)]
    slices.settle(Wish("a", 0, 20), granted=20, calls=1, now=0.0)
    assert slices.wishes({"a": 19}, 0.1) == [Wish("a", 19, 0)]
    slices.settle(Wish("a", 19, 0), granted=0, calls=19, now=0.1)
    assert slices.wishes({"a": 1}, 0.2) == [Wish("a", 0, 20)]


def test_more_calls_than_a_slice_ask_for_as_many_tokens_as_they_are() -> None:
    slices = Slices(per_second=200, burst=1000)
    slices.settle(Wish("a", 0, 20), granted=20, calls=15, now=0.0)
    assert slices.wishes({"a": 50, "b": 3}, 0.1) == [Wish("a", 5, 45), Wish("b", 0, 20)]


def test_a_slice_is_no_larger_than_the_burst_and_no_smaller_than_a_call() -> None:
    assert Slices(per_second=1000, burst=5).wishes({"a": 1}, 0.0) == [Wish("a", 0, 5)]
    assert Slices(per_second=0.5, burst=5).wishes({"a": 1}, 0.0) == [Wish("a", 0, 1)]


def test_tokens_that_nobody_used_for_a_while_are_given_up() -> None:
    slices = Slices(per_second=200, burst=1000)
    slices.settle(Wish("a", 0, 20), granted=20, calls=1, now=0.0)
    assert slices.wishes({"a": 1}, 1.1) == [Wish("a", 0, 20)]


def test_a_key_that_was_granted_too_little_holds_nothing() -> None:
    slices = Slices(per_second=200, burst=1000)
    slices.settle(Wish("a", 0, 20), granted=3, calls=7, now=0.0)
    assert slices.wishes({"a": 1}, 0.1) == [Wish("a", 0, 20)]
