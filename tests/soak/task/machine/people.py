"""What creators and people do: create, create again, cancel, retry, requeue."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from frontrow.task.v1 import task_service_pb2 as pb
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.integration.task.service import status_name
from tests.soak.task.machine.core import Core, pick_of, picks, servers, type_names
from tests.soak.task.model import Policy

_priorities = st.sampled_from([0, 0, 0, 1, -1, 5])
_attempts = st.integers(1, 3)
_limits = st.sampled_from([0, 0, 1, 2, 5])
_pauses = st.sampled_from([0, 0, 0, 50, 250])


class PeopleRules(Core):
    """Rules of creators and people."""

    def __init__(self) -> None:
        super().__init__()
        self._requests: list[tuple[pb.CreateTaskRequest, UUID]] = []

    def _request(self, kind: str, priority: int, attempts: int, pause: int) -> pb.CreateTaskRequest:
        request = pb.CreateTaskRequest(type=kind, priority=priority, max_attempts=attempts, subject="first")
        if pause:
            request.run_after.FromDatetime(datetime.now(UTC) + timedelta(seconds=pause))
        return request

    @rule(
        server=servers, kind=type_names, priority=_priorities, attempts=_attempts, pause=_pauses,
        named=st.sampled_from(["task_id", "request_id", None]),
    )  # fmt: skip
    def create(
        self, server: int, kind: str, priority: int, attempts: int, pause: int, named: str | None
    ) -> None:
        request = self._request(kind, priority, attempts, pause)
        if named is not None:
            setattr(request, named, str(self.new_id()))
        response = self.call(lambda: self.client(server).stub.CreateTask(request, timeout=20))
        assert response.created
        task_id = UUID(response.task.id)
        assert request.task_id in {"", response.task.id}
        self.model.create([(task_id, kind, attempts, priority, pause)])
        if named is not None:
            self._requests.append((request, task_id))

    @rule(server=servers, pick=picks, altered=st.booleans())
    def create_again(self, server: int, pick: int, altered: bool) -> None:
        if not self._requests:
            return
        request, task_id = pick_of(self._requests, pick)
        again = _copy(request, subject="second") if altered else request
        stub = self.client(server).stub
        if altered:
            code, reason, metadata = self.refused(lambda: stub.CreateTask(again, timeout=20))
            assert (code, reason) == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")
            assert metadata["task_id"] == str(task_id)
        else:
            response = self.call(lambda: stub.CreateTask(again, timeout=20))
            assert not response.created
            assert response.task.id == str(task_id)

    @rule(
        server=servers, kind=type_names, count=st.integers(1, 5), known=st.none() | picks, clash=st.booleans()
    )
    def create_many(self, server: int, kind: str, count: int, known: int | None, clash: bool) -> None:
        requests = [_copy(self._request(kind, 0, 2, 0), task_id=str(self.new_id())) for _ in range(count)]
        wanted = [UUID(request.task_id) for request in requests]
        clashes = False
        if known is not None and self._requests:
            request, task_id = pick_of(self._requests, known)
            clashes = clash
            requests.insert(known % (count + 1), _copy(request, subject="second") if clash else request)
            wanted.insert(known % (count + 1), task_id)
        batch = pb.BatchCreateTasksRequest(requests=requests)
        stub = self.client(server).stub
        if clashes:
            told = self.refused(lambda: stub.BatchCreateTasks(batch, timeout=20))
            assert told[:2] == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")
            return
        response = self.call(lambda: stub.BatchCreateTasks(batch, timeout=20))
        assert [UUID(task.id) for task in response.tasks] == wanted
        self.model.create((task_id, kind, 2, 0, 0) for task_id in wanted if task_id not in self.model.tasks)
        self._requests += [
            (request, task_id)
            for request, task_id in zip(requests, wanted, strict=True)
            if (request, task_id) not in self._requests
        ]

    @rule(server=servers, pick=picks)
    def cancel(self, server: int, pick: int) -> None:
        if not self.model.tasks:
            return
        task = self.some_task(pick)
        before = task.status
        client = self.client(server)
        if self.model.cancel(task):
            answer = self.call(lambda: client.cancel(str(task.task_id)))
            assert (status_name(answer).lower(), answer.version) == (task.status, task.version)
        else:
            told = self.refused(lambda: client.cancel(str(task.task_id)))
            assert told[:2] == ("FAILED_PRECONDITION", "TASK_NOT_CANCELLABLE")
            assert told[2]["status"] == before

    @rule(server=servers, pick=picks)
    def retry(self, server: int, pick: int) -> None:
        if not self.model.tasks:
            return
        over = [task for task in self.model.tasks.values() if task.status in {"failed", "cancelled"}]
        task = pick_of(over, pick) if over and pick % 4 else self.some_task(pick)
        before = task.status
        client = self.client(server)
        if self.model.retry(task):
            answer = self.call(lambda: client.retry(str(task.task_id)))
            assert (status_name(answer), answer.version, answer.attempt) == ("PENDING", task.version, 0)
        else:
            told = self.refused(lambda: client.retry(str(task.task_id)))
            assert told[:2] == ("FAILED_PRECONDITION", "TASK_NOT_RETRYABLE")
            assert told[2]["status"] == before

    @rule(server=servers, kind=type_names, older_than=st.sampled_from([50, 250, 750]))
    def requeue(self, server: int, kind: str, older_than: int) -> None:
        expected = self.model.requeue(kind, older_than)
        answer = self.call(lambda: self.client(server).requeue(kind, older_than))
        assert (answer.requeued, answer.abandoned) == expected

    @rule(server=servers, kind=type_names, paused=st.sampled_from([False] * 3 + [True]), limit=_limits)
    def set_policy(self, server: int, kind: str, paused: bool, limit: int) -> None:
        self._set_policy(server, kind, Policy(paused, limit))

    def _set_policy(self, server: int, kind: str, policy: Policy) -> None:
        request = pb.SetQueuePolicyRequest(type=kind)
        request.policy.paused, request.policy.concurrency_limit = policy
        request.update_mask.paths.extend(["paused", "concurrency_limit"])
        self.call(lambda: self.client(server).stub.SetQueuePolicy(request, timeout=20))
        self.model.policies[kind] = policy

    def teardown(self) -> None:
        """Let everything through."""
        for kind in list(self.model.policies):
            self._set_policy(0, kind, Policy(paused=False, limit=0))
        super().teardown()


def _copy(request: pb.CreateTaskRequest, **changes: Any) -> pb.CreateTaskRequest:
    copy = pb.CreateTaskRequest()
    copy.CopyFrom(request)
    for name, value in changes.items():
        setattr(copy, name, value)
    return copy
