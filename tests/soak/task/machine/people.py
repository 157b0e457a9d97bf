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
from tests.soak.task.terms import POLICY_LEASES, POLICY_STALLS

_priorities = st.sampled_from([0, 0, 0, 1, -1, 5])
_attempts = st.integers(0, 3)
_limits = st.sampled_from([0, 0, 1, 2, 5])
_FIELDS = {
    "paused": "paused",
    "limit": "concurrency_limit",
    "lease": "lease",
    "stall": "stall_limit",
    "attempts": "max_attempts",
}
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
        self, *, server: int, kind: str, priority: int, attempts: int, pause: int, named: str | None
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
        if task_id not in self.model.tasks:
            self._create_anew(server, again, task_id)
        elif altered:
            code, reason, metadata = self.refused(lambda: stub.CreateTask(again, timeout=20))
            assert (code, reason) == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")
            assert metadata["task_id"] == str(task_id)
        else:
            response = self.call(lambda: stub.CreateTask(again, timeout=20))
            assert not response.created
            assert response.task.id == str(task_id)

    def _create_anew(self, server: int, request: pb.CreateTaskRequest, task_id: UUID) -> None:
        """Create with an id whose task was deleted long ago: nobody remembers it."""
        # What its creator wished for lies as far ahead as it did then; only this rig's clock has moved.
        pause = round(request.run_after.seconds - datetime.now(UTC).timestamp(), -1)
        response = self.call(lambda: self.client(server).stub.CreateTask(request, timeout=20))
        assert response.created
        self._requests = [known for known in self._requests if known[1] != task_id]
        new_id = UUID(response.task.id)
        self._requests.append((request, new_id))
        paused = int(pause) if request.HasField("run_after") and pause > 0 else 0
        self.model.create([(new_id, request.type, request.max_attempts, request.priority, paused)])

    @rule(
        server=servers, kind=type_names, count=st.integers(1, 5), known=st.none() | picks, clash=st.booleans()
    )
    def create_many(self, server: int, kind: str, count: int, known: int | None, clash: bool) -> None:
        requests = [_copy(self._request(kind, 0, 2, 0), task_id=str(self.new_id())) for _ in range(count)]
        wanted = [UUID(request.task_id) for request in requests]
        clashes = False
        if known is not None and self._requests and self._kept(known):
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

    def _kept(self, pick: int) -> bool:
        return pick_of(self._requests, pick)[1] in self.model.tasks

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
    def let_through(self, server: int, kind: str, paused: bool, limit: int) -> None:
        self._set_policy(server, kind, paused=paused, limit=limit)

    @rule(
        server=servers, kind=type_names, lease=st.none() | st.sampled_from(POLICY_LEASES),
        stall=st.none() | st.sampled_from(POLICY_STALLS), attempts=st.none() | st.integers(0, 3),
    )  # fmt: skip
    def set_limits(
        self, server: int, kind: str, lease: int | None, stall: int | None, attempts: int | None
    ) -> None:
        """Set some of lease, stall limit and attempts; what isn't named stays as it is."""
        named = {"lease": lease, "stall": stall, "attempts": attempts}
        self._set_policy(server, kind, **{name: value for name, value in named.items() if value is not None})

    def _set_policy(self, server: int, kind: str, **changes: int) -> None:
        request = pb.SetQueuePolicyRequest(type=kind)
        for name, value in changes.items():
            field = _FIELDS[name]
            request.update_mask.paths.append(field)
            if name in {"lease", "stall"}:
                getattr(request.policy, field).FromSeconds(value)
            else:
                setattr(request.policy, field, value)
        if not changes:
            told = self.refused(lambda: self.client(server).stub.SetQueuePolicy(request, timeout=20))
            assert told[0] == "INVALID_ARGUMENT"
            return
        self.call(lambda: self.client(server).stub.SetQueuePolicy(request, timeout=20))
        self.model.set_policy(kind, changes)
        self.run(self.rig.read_policies())

    def teardown(self) -> None:
        """Let everything through."""
        for kind in list(self.model.policies):
            self._set_policy(0, kind, paused=False, limit=0)
        super().teardown()


def _copy(request: pb.CreateTaskRequest, **changes: Any) -> pb.CreateTaskRequest:
    copy = pb.CreateTaskRequest()
    copy.CopyFrom(request)
    for name, value in changes.items():
        setattr(copy, name, value)
    return copy
