"""What `frontrow explain` makes of the server's advice."""

import re

import pytest
from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2, ingest_service_pb2

from cli.commands.explain import in_commands
from cli.commands.jobs import advice
from services.ingest import explain
from services.ingest.peers import Found
from tests.unit.docs.commands import commands, problem

DRAFT = ingest_job_pb2.BLOCKER_KIND_DRAFT


class Checks:
    """A review server that always says the same."""

    def __init__(self, found: Found) -> None:
        self._found = found

    async def check_source(self, job_id: str, gallery: gallery_pb2.Gallery) -> Found:
        return self._found

    async def find_official(self, job_id: str, gallery: gallery_pb2.Gallery) -> Found:
        return self._found


ANSWERS = {
    "deleted": Found(blocker=ingest_job_pb2.Blocker(kind=DRAFT, id="7", status="approved", deleted=True)),
    "rejected": Found(blocker=ingest_job_pb2.Blocker(kind=DRAFT, id="7", status="rejected")),
    "pending": Found(blocker=ingest_job_pb2.Blocker(kind=DRAFT, id="7", status="pending")),
    "unknown brand": Found(unknown_brand="Nobody"),
}


async def told(found: Found) -> tuple[list[str], list[str]]:
    """Return the server's advice, and what the command line says of it."""
    gallery = gallery_pb2.Gallery(kind=gallery_pb2.GALLERY_KIND_STREET_SNAP, source="vogue")
    gallery.images.add(url="https://a.test/1.jpg", position=1)
    answer = ingest_service_pb2.ExplainSourceResponse(kind=gallery.kind)
    answer.jobs.add(job_id="0198c0de-0000-7000-8000-000000000000")
    layers = await explain.layers(Checks(found), gallery, 1)  # type: ignore[arg-type]  # the two calls that count
    said = [action for layer in layers for action in layer.actions]
    return said, [in_commands(action, answer) for action in said]


@pytest.mark.parametrize("state", ANSWERS)
async def test_a_person_reads_commands_that_there_are_and_no_call(state: str) -> None:
    said, shown = await told(ANSWERS[state])
    assert said
    text = "\n".join(shown)
    assert re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", text) == []
    named = list(commands(text))
    assert named
    assert [words for words in named if problem(words)] == []


async def test_commands_name_the_draft_the_kind_and_the_job_that_are_meant() -> None:
    _, shown = await told(ANSWERS["rejected"])
    assert shown[0].startswith("`frontrow drafts reopen street 7` puts it before")
    assert "`frontrow drafts purge street 7 --reason … --apply`" in shown[1]
    assert "`frontrow jobs retry 0198c0de-0000-7000-8000-000000000000`" in shown[1]
    _, shown = await told(ANSWERS["unknown brand"])
    assert "`frontrow jobs retry --reason UNKNOWN_BRAND`" in shown[0]


async def test_one_submission_is_one() -> None:
    gallery = gallery_pb2.Gallery(kind=gallery_pb2.GALLERY_KIND_RUNWAY)
    for count, words in ((1, "submission of this address was"), (0, "submissions of this address were")):
        [transport, *_] = await explain.layers(Checks(Found()), gallery, count)  # type: ignore[arg-type]
        assert transport.explanation.startswith(f"{count} {words} accepted")


def test_failed_jobs_are_shown_with_what_to_do_about_them_and_about_each_image() -> None:
    job = ingest_job_pb2.IngestJob(failure_reason="IMAGE_REJECTED")
    job.images.add(reason="ADDRESS_BLOCKED")
    job.images.add()
    lines = advice([job, job])
    assert [line.partition(":")[0] for line in lines] == ["ADDRESS_BLOCKED"]
    listed = ingest_job_pb2.IngestJob(failure_reason="IMAGE_REJECTED")
    assert [line.partition(":")[0] for line in advice([listed, listed])] == ["IMAGE_REJECTED"]
