"""Which debug records are kept."""

import datetime as dt
from uuid import UUID, uuid4

from services.asr.debug_runs import KeptRun, to_remove

NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
ONE, TWO = uuid4(), uuid4()


def run(
    version: int,
    *,
    material: UUID = ONE,
    outcome: str = "completed",
    days: float = 0.0,
    pinned: bool = False,
    size: int = 1,
) -> KeptRun:
    return KeptRun(material, version, outcome, pinned, NOW - dt.timedelta(days=days), size)


def versions(runs: list[KeptRun]) -> list[int]:
    return sorted(item.asr_version for item in runs)


def test_the_newest_runs_are_kept_and_the_older_go() -> None:
    runs = [run(version, days=50 - version) for version in range(1, 31)]
    assert versions(to_remove(runs, NOW)) == list(range(1, 11))


def test_pinned_and_running_ones_stay_and_do_not_count() -> None:
    runs = [run(1, days=90, pinned=True), run(2, days=80, outcome="running")]
    runs += [run(version, days=60 - version) for version in range(3, 24)]
    assert versions(to_remove(runs, NOW)) == [3]


def test_a_materials_last_failed_run_stays_for_thirty_days() -> None:
    runs = [run(1, outcome="failed", days=20), run(2, outcome="failed", days=10), run(3, days=5)]
    runs += [run(4, material=TWO, outcome="failed", days=31), run(5, material=TWO, outcome="failed", days=40)]
    assert versions(to_remove(runs, NOW, newest=1)) == [1, 4, 5]


def test_bytes_are_bounded_and_a_newer_record_is_never_given_up_for_an_older_one() -> None:
    runs = [run(1, days=4, size=1), run(2, days=3, size=90), run(3, days=2, size=40), run(4, days=1, size=40)]
    assert versions(to_remove(runs, NOW, total_bytes=100)) == [1, 2]


def test_what_is_protected_weighs_too() -> None:
    runs = [run(1, days=9, pinned=True, size=95), run(2, days=1, size=10)]
    assert versions(to_remove(runs, NOW, total_bytes=100)) == [2]


def test_nothing_goes_while_there_is_room() -> None:
    assert to_remove([], NOW) == []
    assert to_remove([run(version) for version in range(20)], NOW) == []
