"""`frontrow explain`: why an article did or didn't come in, layer by layer."""

import re

import click
from frontrow.ingest.v1 import gallery_pb2, ingest_job_pb2, ingest_service_pb2, ingest_service_pb2_grpc

from cli.commands.jobs import print_jobs
from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, console, json_option, print_json, print_table, word

_KINDS = {"runway": gallery_pb2.GALLERY_KIND_RUNWAY, "street": gallery_pb2.GALLERY_KIND_STREET_SNAP}
# A call that the server's advice names, and the command that makes it.
_CALLS = {
    r"\bUndeleteDraft (\d+)": r"`frontrow drafts undelete {kind} \1`",
    r"\bReopenDraft (\d+)": r"`frontrow drafts reopen {kind} \1`",
    r"\bPurgeDraft (\d+)": r"`frontrow drafts purge {kind} \1 --reason … --apply`",
    r"\bDraft (\d+) waits for an editor: approve or reject it": r"Draft \1 waits for an editor: "
    r"`frontrow approve {kind} \1` or `frontrow reject {kind} \1 --reason …`",
    r"\bCreateBrand\b": "`frontrow brands add NAME`",
    r"\bAddBrandAlias\b": "`frontrow keys alias brand ID SPELLING`",
    r"\bRetryIngestJobs for (\w+)": r"`frontrow jobs retry --reason \1`",
    r"\bRetryIngestJobs\b": "`frontrow jobs retry {job}`",
}


@click.command()
@click.argument("url")
@click.option("--kind", type=click.Choice(list(_KINDS)), help="Only needed for an article never submitted.")
@click.option("--source", default="", help="The site, with --kind, e.g. vogue.")
@json_option
@click.pass_obj
def explain(connection: Connection, url: str, *, kind: str | None, source: str, as_json: bool) -> None:
    """Say what each layer of dedupe makes of an article now, and what a person can do.

    \b
    Examples:
      frontrow explain https://www.vogue.com/slideshow/copenhagen-street-style
      frontrow explain https://www.vogue.com/… --kind runway --source vogue
    """
    if bool(kind) != bool(source):
        raise click.UsageError(
            "--kind and --source go together; leave both out for an article that was submitted"
        )
    request = ingest_service_pb2.ExplainSourceRequest(source=source, source_url=url)
    if kind:
        request.kind = _KINDS[kind]
    told = connection.run("ingest", _explain(connection, request))
    if as_json:
        print_json(as_dict(told))
        return
    console.print(verdict(told), style="bold", markup=False, highlight=False)
    print_table(
        ["layer", "says", "why", "because of"],
        [
            (
                word(ingest_service_pb2.DedupeLayer, layer.layer, "DEDUPE_LAYER_"),
                word(ingest_service_pb2.LayerVerdict, layer.verdict, "LAYER_VERDICT_"),
                layer.explanation,
                blocker(layer),
            )
            for layer in told.layers
        ],
        empty="",
    )
    actions = [action for layer in told.layers for action in layer.actions]
    if actions:
        console.print("What you can do:", style="bold")
    for action in actions:
        console.print(f"  * {in_commands(action, told)}", markup=False, highlight=False)
    print_jobs(told.jobs, empty="No job has this address.")


def verdict(told: ingest_service_pb2.ExplainSourceResponse) -> str:
    """Return the answer in one sentence."""
    kind = word(gallery_pb2.GalleryKind, told.kind, "GALLERY_KIND_").replace("_", " ")
    article = f"{told.source}'s {kind} {told.source_url}"
    stopped = [
        word(ingest_service_pb2.DedupeLayer, layer.layer, "DEDUPE_LAYER_")
        for layer in told.layers
        if layer.verdict == ingest_service_pb2.LAYER_VERDICT_BLOCKS
    ]
    if told.would_come_in:
        return f"Submitted now, {article} would come in."
    return f"Submitted now, {article} would not come in: kept out by {' and '.join(stopped)}."


def in_commands(action: str, told: ingest_service_pb2.ExplainSourceResponse) -> str:
    """Return the server's advice with this command line's commands in the place of the calls it names."""
    kind = next(name for name, number in _KINDS.items() if number == told.kind)
    job = told.jobs[0].job_id if told.jobs else "JOB_ID"
    for call, command in _CALLS.items():
        action = re.sub(call, command.format(kind=kind, job=job), action)
    return action


def blocker(layer: ingest_service_pb2.ExplainedLayer) -> str:
    """Return what keeps an article out, as kind, id and state; empty when nothing does."""
    if not layer.HasField("blocker"):
        return ""
    met = layer.blocker
    kind = word(ingest_job_pb2.BlockerKind, met.kind, "BLOCKER_KIND_")
    status = ", ".join(filter(None, [met.status, "deleted" if met.deleted else ""]))
    return f"{kind} {met.id}" + (f" ({status})" if status else "")


async def _explain(
    connection: Connection, request: ingest_service_pb2.ExplainSourceRequest
) -> ingest_service_pb2.ExplainSourceResponse:
    async with connection.channel("ingest") as channel:
        stub = ingest_service_pb2_grpc.IngestServiceStub(channel)
        return await stub.ExplainSource(request, timeout=CALL_SECONDS)
