"""What the commands of operators say, and the requests that they make of their arguments."""

import click
import pytest
from frontrow.ingest.v1 import ingest_job_pb2, ingest_service_pb2, spider_pb2
from frontrow.review.v1 import media_service_pb2
from frontrow.task.v1 import queue_pb2, task_pb2, task_service_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from cli.commands.debug import gist
from cli.commands.explain import blocker, verdict
from cli.commands.export import safe_name
from cli.commands.jobs_retry import retry_request
from cli.commands.media import cleanup_words
from cli.commands.queues import policy_request, queue_row, state, unseen
from cli.commands.spiders import key_words, working
from cli.commands.tasks_create import read_payload
from cli.commands.why import advice, run_rows
from cli.commands.workers import worker_rows
from cli.groups import ShowingGroup
from cli.output import several, size, span


def told(status: int, subject: str = "", kind: str = "asr") -> task_service_pb2.ExplainTaskResponse:
    task = task_pb2.Task(id="t1", type=kind, subject=subject)
    task.status = status  # type: ignore[assignment]  # an enum's value is an int on the wire
    return task_service_pb2.ExplainTaskResponse(task=task)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (42.4, "42 s"), (300, "5 min"), (9_000, "2.5 h"), (259_200, "3.0 d")],
)
def test_a_span_has_its_fitting_unit(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (2_000_000, "2.0 MB"), (3_100_000_000, "3.1 GB")],
)
def test_a_size_has_its_fitting_unit(count: int, text: str) -> None:
    assert size(count) == text


def test_a_number_agrees_with_its_noun() -> None:
    assert [several(number, "run") for number in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]


def test_each_hindrance_of_a_waiting_task_names_the_command_that_helps() -> None:
    waiting = told(task_pb2.TASK_STATUS_PENDING)
    for kind in queue_pb2.HindranceKind.values():
        waiting.hindrances.add(kind=kind)
    lines = advice(waiting)
    for command in ("queues resume asr", "queues limit asr N", "frontrow workers", "frontrow queues "):
        assert any(command in line for line in lines), command
    assert len(lines) == 4  # nothing to be done about a task that is due later


@pytest.mark.parametrize(
    ("subject", "kind", "commands"),
    [
        ("ingest_job:j1", "ingest", ["frontrow jobs j1", "frontrow jobs retry j1"]),
        ("live_material:m1", "asr", ["frontrow debug m1", "frontrow tasks retry t1"]),
        ("video_project:p1", "ai_slice", ["frontrow tasks retry t1"]),
    ],
)
def test_a_failed_task_says_how_to_look_closer_and_run_again(
    subject: str, kind: str, commands: list[str]
) -> None:
    lines = advice(told(task_pb2.TASK_STATUS_FAILED, subject, kind))
    assert [line.split("   ")[0] for line in lines] == commands


def test_a_completed_task_needs_no_advice_but_late_writes_are_told() -> None:
    done = told(task_pb2.TASK_STATUS_COMPLETED)
    assert advice(done) == []
    done.runs.add(version=1, late_writes=1)
    done.runs.add(version=3, late_writes=2)
    assert advice(done) == ["3 late writes of ended runs came in and changed nothing."]


def test_runs_are_told_with_length_end_and_refused_writes() -> None:
    lost = queue_pb2.TaskRun(
        version=1,
        worker_id="alpha",
        start_time=Timestamp(seconds=1_000_000),
        end_time=Timestamp(seconds=1_000_090),
        ended_as="lost",
        outcome="requeued",
        reason="STALE",
        late_writes=2,
    )
    live = queue_pb2.TaskRun(version=3, worker_id="beta", start_time=Timestamp(seconds=1_000_100))
    rows = run_rows([lost, live])
    assert rows[0] == (
        1, "alpha", "1970-01-12 13:46:40", "90 s", "lost", "requeued", "STALE", "2 refused"
    )  # fmt: skip
    assert rows[1][3:5] == ("", "running")


@pytest.mark.parametrize("text", ["", "[1]", "1", '{"a"', '{"a": NaN', "null"])
def test_a_payload_is_a_json_object(text: str) -> None:
    assert dict(read_payload('{"width": 320}')) == {"width": 320}
    with pytest.raises(click.UsageError, match="JSON object"):
        read_payload(text)


def test_a_policy_request_names_in_its_mask_exactly_what_was_said() -> None:
    request = policy_request("asr", paused=False, limit=0, lease=1.5)
    assert list(request.update_mask.paths) == ["paused", "concurrency_limit", "lease"]
    assert request.policy.lease == Duration(seconds=1, nanos=500_000_000)
    assert list(policy_request("asr").update_mask.paths) == []
    whole = policy_request("asr", stall=60, attempts=3)
    assert list(whole.update_mask.paths) == ["stall_limit", "max_attempts"]
    assert (whole.policy.stall_limit.seconds, whole.policy.max_attempts) == (60, 3)


def test_a_policy_in_words_says_what_differs_from_the_default() -> None:
    assert state(queue_pb2.QueuePolicy()) == "no limit"
    policy = queue_pb2.QueuePolicy(
        paused=True, concurrency_limit=2, lease=Duration(seconds=300), max_attempts=1
    )
    assert state(policy) == "paused, at most 2 at once, lease 5 min, 1 attempt"


def test_a_queue_without_claimable_tasks_has_no_age() -> None:
    queue = queue_pb2.Queue(type="asr", pending=1)
    assert queue_row(queue)[:6] == ("asr", "ok", 1, "", 0, "")
    queue.oldest_pending_age.seconds = 90
    assert queue_row(queue)[3] == "90 s"


def test_a_type_of_which_nothing_is_known_is_told_from_one_at_rest() -> None:
    assert unseen(queue_pb2.Queue(type="arsr", policy=queue_pb2.QueuePolicy(paused=True)))
    assert not unseen(queue_pb2.Queue(type="asr", completed=1))
    assert not unseen(queue_pb2.Queue(type="asr", workers=1))
    assert not unseen(queue_pb2.Queue(type="asr", created_per_minute=0.1))


def test_a_worker_has_a_line_for_each_run_and_one_when_it_holds_none() -> None:
    worker = queue_pb2.WorkerInfo(worker_id="w", types=["asr", "ingest"])
    assert [row[4] for row in worker_rows(worker)] == ["nothing"]
    worker.leases.add(task_id="1", type="asr", progress=5)
    worker.leases.add(task_id="2", type="ingest")
    rows = worker_rows(worker)
    assert [row[0] for row in rows] == ["w", ""]
    assert [row[4] for row in rows] == ["asr 1", "ingest 2"]


def test_jobs_are_retried_by_id_or_by_reason_and_a_reason_is_a_failure_or_a_duplicate() -> None:
    assert list(retry_request(["a", "b"], [], "").job_ids) == ["a", "b"]
    failed = retry_request([], ["unknown_brand", "IMAGE_REJECTED"], "vogue").filter
    assert list(failed.failure_reasons) == ["UNKNOWN_BRAND", "IMAGE_REJECTED"]
    assert (failed.source, list(failed.done_reasons)) == ("vogue", [])
    done = retry_request([], ["entity_duplicate"], "").filter
    assert list(done.done_reasons) == [ingest_job_pb2.DONE_REASON_ENTITY_DUPLICATE]
    assert not done.failure_reasons


@pytest.mark.parametrize(
    ("ids", "reasons", "source"),
    [([], [], ""), (["a"], ["X"], ""), (["a"], [], "vogue"), ([], ["UNKNOWN_BRAND", "source_conflict"], "")],
)
def test_a_retry_that_names_nothing_or_too_much_is_refused(
    ids: list[str], reasons: list[str], source: str
) -> None:
    with pytest.raises(click.UsageError):
        retry_request(ids, reasons, source)


def test_an_explained_article_is_told_in_one_sentence_with_the_layers_that_block() -> None:
    answer = ingest_service_pb2.ExplainSourceResponse(
        kind=2, source="vogue", source_url="https://v/1", would_come_in=True
    )
    assert verdict(answer) == "Submitted now, vogue's street snap https://v/1 would come in."
    answer.would_come_in = False
    layer = answer.layers.add(
        layer=ingest_service_pb2.DEDUPE_LAYER_SOURCE, verdict=ingest_service_pb2.LAYER_VERDICT_BLOCKS
    )
    assert blocker(layer) == ""
    layer.blocker.CopyFrom(
        ingest_job_pb2.Blocker(
            kind=ingest_job_pb2.BLOCKER_KIND_DRAFT, id="12", status="rejected", deleted=True
        )
    )
    assert verdict(answer).endswith("would not come in: kept out by source.")
    assert blocker(layer) == "draft 12 (rejected, deleted)"


def test_a_revoked_key_is_marked_and_does_not_count_as_working() -> None:
    old = spider_pb2.SpiderKey(key_id="old", revoke_time=Timestamp(seconds=1))
    new = spider_pb2.SpiderKey(key_id="new")
    assert [key_words(key) for key in (new, old)] == ["new", "old (revoked)"]
    assert working(spider_pb2.Spider(keys=[new, old])) == [new]


def test_a_stage_in_short_is_its_error_or_its_plain_facts() -> None:
    assert gist({"reason": "NO_AUDIO", "message": "no\n sound", "trace": []}) == "NO_AUDIO: no sound"
    assert gist({"source": "local", "paragraphs": [1, 2], "nested": {}, "none": None}) == (
        "source local, paragraphs (2)"
    )
    assert gist("cut off") == ""
    assert len(gist({"text": "x" * 500})) == 160


@pytest.mark.parametrize(
    ("proposed", "name"),
    [
        ("直播.srt", "直播.srt"),
        ("../../etc/passwd", "passwd"),
        ("a\\b.srt", "b.srt"),
        ("..", "m.srt"),
        ("", "m.srt"),
    ],
)
def test_a_proposed_file_name_never_leaves_the_folder(proposed: str, name: str) -> None:
    assert safe_name(proposed, "m.srt") == name


def test_a_clean_up_report_says_whether_anything_was_written() -> None:
    report = media_service_pb2.CleanUpMediaResponse(
        total_count=10, marked_count=2, deleted_count=1, deleted_bytes=2_000_000
    )
    assert cleanup_words(report) == (
        "Of 10 images, 2 would be marked as unused and 1 would be deleted (2.0 MB, thumbnails included).\n"
        "Nothing was written; --apply does it."
    )
    report.applied = True
    assert "would" not in cleanup_words(report)
    assert "after a day" in cleanup_words(report)


def test_an_id_in_a_showing_group_is_shown_and_a_typo_is_a_typo() -> None:
    group = ShowingGroup("jobs", commands=[click.Command("show"), click.Command("retry")])
    context = click.Context(group)
    job_id = "0198c0de-0000-7000-8000-000000000000"
    name, _, rest = group.resolve_command(context, [job_id, "--json"])
    assert (name, rest) == ("show", [job_id, "--json"])
    assert group.resolve_command(context, ["retry", "x"])[0] == "retry"
    with pytest.raises(click.UsageError, match="retyr"):
        group.resolve_command(context, ["retyr"])
