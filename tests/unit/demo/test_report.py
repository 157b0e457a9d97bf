"""The demo's judgement: a deviation is never lost."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

import demo.__main__
from demo.report import Deviation, Report


def quiet_report() -> Report:
    return Report(Console(file=io.StringIO()))


def test_every_failed_check_is_a_sentence_with_both_values() -> None:
    report = quiet_report()
    report.check("one official runway", 1, 2)
    report.check("two albums", 2, 2)
    report.check_that("it plays for 3 s", False, 2.5)
    assert report.deviations() == [
        "one official runway: expected 1, got 2",
        "it plays for 3 s: expected 'it plays for 3 s', got 2.5",
    ]


def test_the_written_report_says_whether_all_is_well(tmp_path: Path) -> None:
    report = quiet_report()
    with report.timed("a step"):
        report.check("one official runway", 1, 1)
    report.note("official runway", "5 images")
    report.write(tmp_path / "report.json", "")
    good = json.loads((tmp_path / "report.json").read_text())
    assert good["ok"]
    assert list(good["timings"]) == ["a step"]
    report.write(tmp_path / "report.json", "it was interrupted")
    assert not json.loads((tmp_path / "report.json").read_text())["ok"]


@pytest.mark.parametrize("fault", [Deviation("the clip begins late"), RuntimeError("no server")])
def test_a_failed_run_is_a_non_zero_exit_that_says_what_was_wrong(
    fault: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(report: Report) -> None:
        raise ExceptionGroup("parts", [fault])

    monkeypatch.setattr(demo.__main__, "_run", run)
    monkeypatch.setattr(demo.__main__, "FOLDER", tmp_path / "demo")
    assert demo.__main__.main() == 1
    said = capsys.readouterr().out
    assert str(fault) in said
    assert "DEMO OK" not in said
    assert str(fault) in json.loads((tmp_path / "demo" / "report.json").read_text())["error"]


def test_a_good_run_ends_in_demo_ok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(report: Report) -> None:
        report.check("one official runway", 1, 1)

    monkeypatch.setattr(demo.__main__, "_run", run)
    monkeypatch.setattr(demo.__main__, "FOLDER", tmp_path / "demo")
    assert demo.__main__.main() == 0
    assert capsys.readouterr().out.splitlines()[-1] == "DEMO OK"
