"""The command line against a real instance."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from frontrow.ingest.v1 import ingest_job_pb2

from cli.main import main
from demo.site import ImageSite
from tests.e2e.process import ROOT, Process, environment, frontrow

pytestmark = pytest.mark.timeout(300)  # whole processes

COMMANDS = ["up", "status", "doctor", "submit", "spiders", "jobs", "drafts", "approve", "reject", "brands"]
COMMANDS += ["tasks", "materials", "slice", "draft", "db"]


def test_status_shows_all_four_servers_as_serving(instance: Process) -> None:
    answer = instance.cli_json("status")
    assert {server["server"]: server["health"] for server in answer["servers"]} == {
        "ingest": "serving",
        "review": "serving",
        "asr": "serving",
        "task": "serving",
    }
    table = instance.cli("status")
    assert "serving" in table.stdout


def test_the_list_of_commands_is_whole_and_every_help_text_teaches_by_example() -> None:
    runner = CliRunner()
    listed = runner.invoke(main, ["--help"], prog_name="frontrow").output
    for name in COMMANDS:
        assert f"  {name} " in listed
        text = runner.invoke(main, [name, "--help"], prog_name="frontrow").output
        assert "Example" in text, name
        assert f"frontrow {name}" in text or f"  frontrow --data-dir /srv/frontrow {name}" in text, name


def test_without_a_server_the_error_says_what_to_do(tmp_path: Path) -> None:
    nowhere = "127.0.0.1:1"
    done = frontrow("--data-dir", str(tmp_path), "jobs", FRONTROW_INGEST_ADDRESS=nowhere)
    assert done.returncode == 1
    assert f"no ingest server answers at {nowhere}" in done.stderr
    assert "frontrow up" in done.stderr
    assert "Traceback" not in done.stderr


def test_status_without_servers_is_an_answer_and_a_failure(tmp_path: Path) -> None:
    ports = {f"FRONTROW_{name}_ADDRESS": "127.0.0.1:1" for name in ("INGEST", "REVIEW", "ASR", "TASK")}
    done = frontrow("--data-dir", str(tmp_path), "status", "--json", **ports)
    assert done.returncode == 1
    assert {server["health"] for server in json.loads(done.stdout)["servers"]} == {"unreachable"}


def test_a_refusal_is_shown_with_reason_and_without_traceback(instance: Process) -> None:
    done = instance.cli("approve", "runway", "999999")
    assert done.returncode == 1
    assert "DRAFT_NOT_FOUND" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_submission_needs_a_key_and_says_how_to_get_one(instance: Process, tmp_path: Path) -> None:
    file = tmp_path / "show.json"
    file.write_text(instance.cli("submit", "--example", "runway").stdout)
    done = instance.cli("submit", str(file))
    assert done.returncode == 2
    assert "frontrow spiders add" in done.stderr


def test_a_submission_without_a_server_says_that_it_is_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "show.json"
    file.write_text(frontrow("submit", "--example", "runway").stdout)
    nowhere = {"FRONTROW_INGEST_ADDRESS": "127.0.0.1:1"}
    with subprocess.Popen(
        [sys.executable, "-m", "cli", "--data-dir", str(tmp_path), "submit", str(file)],
        cwd=ROOT, stderr=subprocess.PIPE, text=True,
        env=environment(**nowhere, FRONTROW_SPIDER_KEY_ID="k", FRONTROW_SPIDER_SECRET="s"),
    ) as submitting:  # fmt: skip
        assert submitting.stderr is not None
        said = submitting.stderr.readline()
        submitting.kill()
    assert said.startswith("the submission is tried again in 0.")
    assert "UNAVAILABLE" in said


def test_a_list_of_drafts_of_an_unknown_project_says_that_there_is_none(instance: Process) -> None:
    done = instance.cli("draft", "list", "00000000-0000-7000-8000-000000000000")
    assert done.returncode == 1
    assert "VIDEO_PROJECT_NOT_FOUND" in done.stderr
    assert "frontrow slice MATERIAL_ID" in done.stderr


def test_a_pause_of_a_type_that_there_is_not_is_noticed_and_can_be_taken_back(instance: Process) -> None:
    typo = instance.cli("queues", "pause", "ops_tpyo")
    assert typo.returncode == 0
    assert "No task of type ops_tpyo is known" in typo.stderr
    assert "frontrow queues reset ops_tpyo" in typo.stderr
    assert "ops_tpyo" in instance.cli("queues").stdout
    gone = instance.cli("queues", "reset", "ops_tpyo")
    assert "no task of it is known" in gone.stdout
    assert gone.stderr == ""
    assert "ops_tpyo" not in instance.cli("queues").stdout


def test_a_task_is_created_by_hand_once_and_waits_for_a_worker(instance: Process) -> None:
    wanted = ("tasks", "create", "hand_made", "--subject", "picture:17", "--request-id", "once")
    made = instance.cli_json(*wanted, "--payload", '{"width": 320}', "--priority", "5")
    assert (made["created"], made["task"]["payload"], made["task"]["priority"]) == (True, {"width": 320}, 5)
    again = instance.cli(*wanted, "--payload", '{"width": 320}', "--priority", "5").stdout
    assert again.startswith(f"there already: hand_made {made['task']['id']}")
    assert instance.cli("why", made["task"]["id"]).stdout.startswith("It waits: no worker")
    other = instance.cli(*wanted)
    assert other.returncode == 1
    assert "REQUEST_ID_REUSED" in other.stderr
    late = instance.cli_json("tasks", "create", "hand_made", "--delay", "3600", "--attempts", "2")["task"]
    assert (late["max_attempts"], late["status"]) == (2, "TASK_STATUS_PENDING")
    assert "may not run for another" in instance.cli("why", late["id"]).stdout
    for wrong, said in (
        (("asr",), "frontrow materials add"),
        (("hand_made", "--payload", "[1"), "JSON object"),
    ):
        refused = instance.cli("tasks", "create", *wrong)
        assert refused.returncode == 2
        assert said in refused.stderr


def test_a_file_that_is_no_gallery_is_named_with_its_fault(instance: Process, tmp_path: Path) -> None:
    file = tmp_path / "show.json"
    file.write_text('{"kind": "GALLERY_KIND_RUNWAY", "titel": "x"}')
    done = instance.cli("submit", str(file), "--key-id", "k", "--secret", "s")
    assert done.returncode == 1
    assert "titel" in done.stderr
    assert "Traceback" not in done.stderr


async def test_submit_wait_jobs_drafts_and_approve_lead_to_an_official_page(
    instance: Process, tmp_path: Path, site: ImageSite
) -> None:
    key = instance.cli_json("spiders", "add", "cli-test")
    gallery = json.loads(instance.cli("submit", "--example", "street").stdout)
    gallery["source_url"] = "https://www.vogue.com/slideshow/of-the-command-line"
    gallery["images"] = [{"url": f"{site.origin}/photos/coffee.jpg", "position": 1}]
    file = tmp_path / "street.json"
    file.write_text(json.dumps(gallery))
    signing = {"FRONTROW_SPIDER_KEY_ID": key["key_id"], "FRONTROW_SPIDER_SECRET": key["secret"]}

    job = await asyncio.to_thread(instance.cli_json, "submit", str(file), "--wait", **signing)
    assert job["status"] == ingest_job_pb2.IngestJobStatus.Name(ingest_job_pb2.INGEST_JOB_STATUS_DONE), job
    assert job["done_reason"] == "DONE_REASON_CREATED"
    assert instance.cli_json("jobs", job["job_id"])["draft_id"] == job["draft_id"]
    waiting = instance.cli_json("drafts", "street", "--status", "pending")
    assert job["draft_id"] in [draft["draft_id"] for draft in waiting]
    approved = instance.cli_json("approve", "street", job["draft_id"])
    assert approved["published"]

    again = await asyncio.to_thread(instance.cli, "submit", str(file), "--wait", **signing)
    assert again.returncode == 0
    assert f"met draft {job['draft_id']}" in again.stdout


def test_a_recording_without_sound_fails_with_that_reason(instance: Process) -> None:
    silent = ROOT / "samples" / "edge" / "noaudio.mp4"
    done = instance.cli("materials", "add", str(silent), "--name", "no sound", "--wait")
    assert done.returncode == 1
    assert "NO_AUDIO" in done.stderr
    listed = instance.cli_json("materials", "list", "-k", "sound")
    assert [material["asr_status"] for material in listed] == ["ASR_STATUS_FAILED"]
    shown = instance.cli("materials", listed[0]["id"])
    assert "NO_AUDIO_TRACK" in shown.stdout
    assert "noaudio.mp4" in shown.stdout
    failed = instance.cli_json("tasks", "--type", "asr", "--status", "failed")
    assert "no sound" in [task["live_material_name"] for task in failed]


def test_doctor_finds_nothing_missing_where_the_tests_run() -> None:
    done = frontrow("doctor", "--json")
    assert done.returncode == 0, done.stdout
    assert {finding["state"] for finding in json.loads(done.stdout)} <= {"ok", "warning"}


@pytest.mark.parametrize("variable", ["FRONTROW_ASR_MODEL_DIR", "ASR_MODEL_DIR"])
def test_doctor_names_a_model_folder_without_a_model(tmp_path: Path, variable: str) -> None:
    done = frontrow("doctor", "--json", **{variable: str(tmp_path)})
    assert done.returncode == 1
    missing = [finding for finding in json.loads(done.stdout) if finding["state"] == "missing"]
    assert [finding["what"] for finding in missing] == ["speech model"]
