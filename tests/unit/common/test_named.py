"""Named parameters become positions."""

from __future__ import annotations

import pytest

from libs.common.named import Statement


def test_each_name_is_one_position_however_often_it_stands_there() -> None:
    statement = Statement("SELECT :b::text, :a, CAST(:b AS text) WHERE x = :a_b")
    assert statement.by_position == "SELECT $1::text, $2, CAST($1 AS text) WHERE x = $3"
    assert statement.arguments({"a": 1, "b": 2, "a_b": 3, "other": 4}) == [2, 1, 3]


def test_a_parameter_that_was_not_given_is_named() -> None:
    with pytest.raises(KeyError, match="two"):
        Statement("SELECT :one, :two").arguments({"one": 1})
