"""A witness inside the database and the handlers' own log: what they must say after a storm."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from tests.soak.task.fleet import LEASE_SECONDS
from tests.soak.task.terms import TERMINAL

# A trigger, so that whatever the service does to a row is seen, in order, with how silent its run was.
INSTALL = """
CREATE SCHEMA soak;
CREATE TABLE soak.audit (
    place bigint GENERATED ALWAYS AS IDENTITY, at float8 NOT NULL, task_id text NOT NULL,
    was text NOT NULL, became text NOT NULL, was_version bigint NOT NULL, version bigint NOT NULL,
    silent_seconds float8, reason text NOT NULL
);
CREATE FUNCTION soak.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO soak.audit (at, task_id, was, became, was_version, version, silent_seconds, reason)
    VALUES (extract(epoch FROM clock_timestamp()), NEW.id, OLD.status, NEW.status, OLD.version, NEW.version,
        extract(epoch FROM now() - OLD.heartbeat_at), NEW.status_reason);
    RETURN NULL;
END $$;
CREATE TRIGGER note AFTER UPDATE ON task.tasks FOR EACH ROW
    WHEN (OLD.version <> NEW.version OR OLD.status <> NEW.status) EXECUTE FUNCTION soak.note();
"""


@dataclass
class Effect:
    """What the handler of one run did: when it began and, unless it was killed, ended."""

    start: float
    end: float | None = None


Effects = Mapping[str, Mapping[int, Effect]]


def read_effects(path: Path) -> Effects:
    """Return the effects by task and version; a run that began twice fails."""
    effects: dict[str, dict[int, Effect]] = defaultdict(dict)
    for text in path.read_text().splitlines():
        line = json.loads(text)
        runs = effects[line["task"]]
        if line["what"] == "start":
            assert line["version"] not in runs, f"run {line['version']} of {line['task']} began twice"
            runs[line["version"]] = Effect(line["at"])
        else:
            runs[line["version"]].end = line["at"]
    return effects


async def check(url: str, kind: str, created: Sequence[str], retried: int, effects: Effects) -> Counter[str]:
    """Check every task and every run after a storm; return how many tasks ended how."""
    connection = await asyncpg.connect(url)
    tasks = await connection.fetch("SELECT *, id::text AS key FROM task.tasks WHERE type = $1", kind)
    runs = await connection.fetch("SELECT *, task_id::text AS key FROM task.task_runs")
    audit = await connection.fetch("SELECT * FROM soak.audit ORDER BY place")
    await connection.close()
    assert {task["key"] for task in tasks} == set(created), "tasks were lost or made up"
    history: dict[str, list[asyncpg.Record]] = defaultdict(list)
    for change in audit:
        history[change["task_id"]].append(change)
    records: dict[str, dict[int, asyncpg.Record]] = defaultdict(dict)
    for run in runs:
        records[run["key"]][run["version"]] = run
    again = 0
    for task in tasks:
        again += _check_history(task, history[task["key"]])
        _check_records(history[task["key"]], records[task["key"]])
        _check_effects(task, history[task["key"]], records[task["key"]], effects.get(task["key"], {}))
    assert again <= retried, f"{again} tasks left a final status, only {retried} were retried"
    return Counter(task["status"] for task in tasks)


def _check_history(task: asyncpg.Record, changes: Sequence[asyncpg.Record]) -> int:
    """Check one task's changes: each raises the version by one, it ends once; return its retries."""
    assert task["status"] in TERMINAL, f"never ended: {dict(task)}"
    status, version = "pending", 0
    for change in changes:
        assert (change["was"], change["was_version"]) == (status, version), changes
        assert change["version"] == version + 1, f"{change} skipped a version"
        status, version = change["became"], change["version"]
    assert (task["status"], task["version"]) == (status, version)
    retries = [change for change in changes if change["was"] in TERMINAL]
    assert all(change["was"] != "completed" and change["became"] == "pending" for change in retries)
    ends = sum(change["became"] in TERMINAL for change in changes)
    assert ends == 1 + len(retries), f"ended {ends} times: {changes}"
    return len(retries)


def _check_records(changes: Sequence[asyncpg.Record], records: Mapping[int, asyncpg.Record]) -> None:
    """Check that each claim has one record, and that what counts as silent was silent for a lease."""
    claims = {change["version"] for change in changes if change["became"] == "processing"}
    assert set(records) == claims, "not one record a run"
    for change in changes:
        if change["was"] == "processing" and records[change["was_version"]]["reason"] == "STALE":
            assert change["silent_seconds"] >= LEASE_SECONDS, f"taken back under a live lease: {change}"


def _check_effects(
    task: asyncpg.Record, changes: Sequence[asyncpg.Record], records: Mapping[int, asyncpg.Record],
    effects: Mapping[int, Effect],
) -> None:  # fmt: skip
    """Check that handlers began under a live lease of their own, and that a completed task was worked on."""
    unheard = {version for version, record in records.items() if record["reason"] == "REPLY_LOST"}
    assert not unheard & set(effects), f"work on a run its worker never heard of: {dict(task)}, {unheard}"
    assert set(effects) <= set(records), f"work on a run that never was: {dict(task)}"
    over = {change["was_version"]: change["at"] for change in changes if change["was"] == "processing"}
    for version, effect in effects.items():
        # However late the claim's answer came: work begins on a live lease or not at all.
        assert effect.start <= over.get(version, effect.start), f"run {version} was over before: {task}"
        for earlier in [run for run in records if run < version]:
            assert over[earlier] <= effect.start, f"run {version} began under the lease of {earlier}: {task}"
            before = effects.get(earlier)
            if before is not None and (before.end is None or before.end > effect.start):
                said = records[earlier]["ended_as"], records[earlier]["reason"]
                assert said[0] == "lost", f"run {earlier} was {said} before its handler ended: {dict(task)}"
    if task["status"] == "completed":
        last = effects.get(task["version"] - 1)
        assert last is not None, f"completed without work: {dict(task)}"
        assert last.end is not None, f"completed before its handler ended: {dict(task)}"
