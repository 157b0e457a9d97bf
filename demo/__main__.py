"""Run the main job of the product on sample input, from one command, and check what came out.

Exit status 0 and a last line `DEMO OK`, or 1 and what deviated. `var/demo/report.json` has all of it.
"""

import asyncio
import os
import shutil
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from demo import clips, editor, galleries, recording
from demo.instance import ROOT, Instance
from demo.report import Deviation, Report
from demo.site import ImageSite
from libs.common.postgres_place import remove_data

FOLDER = ROOT / "var" / "demo"


def main() -> int:
    """Run the demo; return the exit status."""
    console = Console()
    report = Report(console)
    error = ""
    _wipe(FOLDER)
    try:
        asyncio.run(_run(report))
    except KeyboardInterrupt:
        error = "interrupted"
    except Exception as failure:  # noqa: BLE001  (the report must be written, whatever happened)
        error = "; ".join(_sentences(failure, console))
    report.print_tables()
    report.write(FOLDER / "report.json", error)
    wrong = [*report.deviations(), *filter(None, [error])]
    for sentence in wrong:
        console.print(f"[red]deviation:[/] {sentence}", markup=True, highlight=False)
    if wrong:
        console.print(f"[red]DEMO FAILED[/]: {len(wrong)} deviation(s); logs in {FOLDER / 'frontrow.log'}")
        return 1
    sys.stdout.write("DEMO OK\n")
    return 0


async def _run(report: Report) -> None:
    """Start the image site and the product, run both parts at once, stop everything."""
    site = ImageSite()
    instance = Instance(FOLDER / "data", FOLDER / "frontrow.log")
    await site.start()
    try:
        with report.timed("product: started on an empty folder (PostgreSQL, four servers, workers)"):
            await instance.start()
        columns = (TextColumn("{task.description:<20}"), BarColumn(bar_width=30), TimeElapsedColumn())
        with Progress(*columns, console=report.console, transient=True) as progress:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(_galleries(instance, site, report))
                parts.create_task(_recording(instance, report, progress))
    finally:
        with report.timed("product: stopped"):
            status = await instance.stop()
        await site.stop()
    report.check("the product stopped cleanly", 0, status)


async def _galleries(instance: Instance, site: ImageSite, report: Report) -> None:
    jobs = await galleries.submit_and_wait(instance, site, report)
    galleries.check_jobs(jobs, site, report)
    pages = await editor.approve_all(instance, jobs, report)
    await editor.check_catalogue(instance, jobs, pages, report)


async def _recording(instance: Instance, report: Report, progress: Progress) -> None:
    material = await recording.upload(instance, report, progress)
    material = await recording.transcribed(instance, material.id, report, progress)
    made = await recording.sliced(instance, material, report, progress)
    await clips.check_clips(instance, made, FOLDER / "clips", report)


def _sentences(failure: BaseException, console: Console) -> Iterator[str]:
    """Yield what went wrong, one sentence each; what isn't a deviation gets its traceback printed."""
    if isinstance(failure, BaseExceptionGroup):
        for part in failure.exceptions:
            yield from _sentences(part, console)
    elif isinstance(failure, Deviation):
        yield str(failure)
    else:
        console.print("".join(traceback.format_exception(failure)), markup=False, highlight=False)
        yield f"{type(failure).__name__}: {failure}"


def _wipe(folder: Path) -> None:
    """Remove what an earlier run left, the database first: its files may lie behind a link."""
    remove_data(folder / "data" / "postgres")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)


if __name__ == "__main__":
    sys.exit(main())
