"""`frontrow search`: what was said, and when."""

import click
from frontrow.asr.v1 import live_material_service_pb2, live_material_service_pb2_grpc

from cli.commands.materials import minutes
from cli.connection import CALL_SECONDS, Connection
from cli.output import as_dict, console, json_option, print_json, print_table, word


@click.command()
@click.argument("keywords")
@click.option("--material", default="", metavar="ID", help="Only in this recording.")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@json_option
@click.pass_obj
def search(connection: Connection, keywords: str, *, material: str, limit: int, as_json: bool) -> None:
    """Find paragraphs by what was said in them, newest recording first.

    Words in one argument: a space (or comma) is AND within one paragraph, | is OR.

    \b
    Examples:
      frontrow search '国债 收益率 | 基金'
      frontrow search 口红 --material MATERIAL_ID
    """
    request = live_material_service_pb2.SearchTranscriptsRequest(
        keywords=keywords, live_material_id=material, page_size=limit
    )
    found = connection.run("asr", _search(connection, request))
    if as_json:
        print_json([as_dict(hit) for hit in found.hits])
        return
    print_table(
        ["recording", "from", "to", "what was said", "found as", "id"],
        [
            (
                hit.live_material_name,
                minutes(hit.start_ms),
                minutes(hit.end_ms),
                hit.paragraph.text,
                word(live_material_service_pb2.TranscriptMatch, hit.match, "TRANSCRIPT_MATCH_"),
                hit.live_material_id,
            )
            for hit in found.hits
        ],
        empty="Nobody said that. Fewer words in a group find more; `|` puts another group beside it.",
    )
    if found.next_page_token:
        console.print(f"There is more: frontrow search … -n {min(1000, limit * 5)}", style="dim")


async def _search(
    connection: Connection, request: live_material_service_pb2.SearchTranscriptsRequest
) -> live_material_service_pb2.SearchTranscriptsResponse:
    async with connection.channel("asr") as channel:
        stub = live_material_service_pb2_grpc.LiveMaterialServiceStub(channel)
        return await stub.SearchTranscripts(request, timeout=CALL_SECONDS)
