"""Lists and looks: newest first, by keyset, without payload (domain.md 1.14, 1.15)."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import grpc.aio
import pytest
from frontrow.task.v1 import task_pb2
from frontrow.task.v1 import task_service_pb2 as pb

from libs.common.client import error_info
from tests.integration.task.service import Tasks, completed, new_type


async def _list(tasks: Tasks, **fields: Any) -> pb.ListTasksResponse:
    return await tasks.stub.ListTasks(pb.ListTasksRequest(**fields), timeout=20)


async def test_pages_hold_every_task_once_newest_first_while_others_are_created(tasks: Tasks) -> None:
    kind = new_type()
    made = [(await tasks.create(kind, payload={"n": 1})).id for _ in range(25)]
    seen: list[str] = []
    token = ""
    while True:
        page = await _list(tasks, types=[kind], page_size=10, page_token=token)
        seen += [task.id for task in page.tasks]
        assert not any(task.HasField("payload") for task in page.tasks)
        await tasks.create(kind)
        token = page.next_page_token
        if not token:
            break
    assert seen == made[::-1]


async def test_the_last_page_that_is_full_has_no_token(tasks: Tasks) -> None:
    kind = new_type()
    for _ in range(4):
        await tasks.create(kind)
    page = await _list(tasks, types=[kind], page_size=2)
    page = await _list(tasks, types=[kind], page_size=2, page_token=page.next_page_token)
    assert (len(page.tasks), page.next_page_token) == (2, "")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", {"a", "b", "c", "d"}),
        ("利率 债券", {"a"}),
        ("利率 债券 | 股票", {"a", "b"}),
        ("利率，债券｜股票", {"a", "b"}),
        ("LIVE", {"c"}),
        ("100%", {"d"}),
        ("1_0", set()),
        ("\\", set()),
        (" | , ", {"a", "b", "c", "d"}),
        ("project 利率", {"a"}),
    ],
)
async def test_keyword_groups_search_both_names(
    tasks: Tasks, names: tuple[str, dict[str, str]], words: str, found: set[str]
) -> None:
    kind, ids = names
    page = await _list(tasks, types=[kind], keywords=words)
    assert {ids[task.id] for task in page.tasks} == found


@pytest.fixture(scope="module")
async def names(tasks: Tasks) -> tuple[str, dict[str, str]]:
    """Create four tasks with telling names; return their type and which is which."""
    kind = new_type()
    made = {
        "a": {"live_material_name": "央行利率与债券", "video_project_name": "Project 1"},
        "b": {"live_material_name": "股票早盘"},
        "c": {"video_project_name": "live cut"},
        "d": {"video_project_name": "100% wool"},
    }
    return kind, {(await tasks.create(kind, **fields)).id: name for name, fields in made.items()}


async def test_lists_filter_by_type_status_subject_and_time(tasks: Tasks) -> None:
    kind, other = new_type(), new_type()
    first = await tasks.create(kind, subject="thing:1")
    second = await tasks.create(kind, subject="thing:2")
    await tasks.create(other, subject="thing:1")
    await tasks.finish(completed(await tasks.claim_one(kind)))

    async def ids(**fields: Any) -> list[str]:
        return [task.id for task in (await _list(tasks, types=[kind], **fields)).tasks]

    assert await ids() == [second.id, first.id]
    assert await ids(statuses=[task_pb2.TASK_STATUS_COMPLETED]) == [first.id]
    assert await ids(subject="thing:2") == [second.id]
    assert await ids(created_after=second.create_time) == [second.id]
    assert await ids(created_before=second.create_time) == [first.id]
    both = await _list(tasks, types=[kind, other], subject="thing:1")
    assert len(both.tasks) == 2


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"page_size": -1}, "page_size"),
        ({"page_token": "nonsense"}, "page_token"),
        ({"statuses": [0]}, "statuses[0]"),
        ({"statuses": [77]}, "statuses[0]"),
        ({"keywords": "k" * 201}, "keywords"),
    ],
)
async def test_a_list_out_of_bounds_is_refused_by_field(
    tasks: Tasks, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _list(tasks, **fields)
    info = error_info(caught.value)
    assert info.code == grpc.StatusCode.INVALID_ARGUMENT
    assert info.violations[0].field == field


async def test_a_token_of_another_query_is_refused(tasks: Tasks) -> None:
    kind = new_type()
    for _ in range(3):
        await tasks.create(kind)
    page = await _list(tasks, types=[kind], page_size=1)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await _list(tasks, types=[new_type()], page_size=1, page_token=page.next_page_token)
    assert error_info(caught.value).violations[0].field == "page_token"


async def test_a_batch_get_answers_those_that_exist_in_the_order_asked(tasks: Tasks) -> None:
    kind = new_type()
    one, two = [(await tasks.create(kind, payload={"a": 1})).id for _ in range(2)]
    request = pb.BatchGetTasksRequest(task_ids=[two, str(uuid4()), one, two])
    answer = await tasks.stub.BatchGetTasks(request, timeout=20)
    assert [task.id for task in answer.tasks] == [two, one]
    assert not any(task.HasField("payload") for task in answer.tasks)


async def test_urls_are_stored_by_mask_and_an_absent_mask_erases_nothing(tasks: Tasks) -> None:
    kind = new_type()
    await tasks.create(kind)
    run = await tasks.claim_one(kind)

    async def update(*paths: str, **urls: str) -> task_pb2.Task:
        request = pb.UpdateTaskUrlsRequest(task_id=run.id, version=run.version, **urls)
        request.update_mask.paths.extend(paths)
        return (await tasks.stub.UpdateTaskUrls(request, timeout=20)).task

    await update(draft_url="d", clips_url="c")
    task = await update(video_url="v")
    assert (task.draft_url, task.video_url, task.clips_url) == ("d", "v", "c")
    task = await update("draft_url", "video_url", video_url="w")
    assert (task.draft_url, task.video_url, task.clips_url) == ("", "w", "c")
    assert task.version == run.version
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await update("status")
    assert error_info(caught.value).violations[0].field == "update_mask"
