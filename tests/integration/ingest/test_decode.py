"""Decoding hostile and honest images in real child processes."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from PIL import Image, ImageOps

from services.ingest.worker.decode import Decoded, Decoder
from services.ingest.worker.problems import ImageProblem
from services.ingest.worker.settings import IngestWorkerSettings
from tests.integration.ingest.site import picture

PHOTOS = Path(__file__).parents[3] / "samples" / "photos"


@pytest.fixture(scope="module")
async def decoder() -> AsyncIterator[Decoder]:
    running = Decoder(IngestWorkerSettings(decoders=1, thumbnail_widths=(40, 120)))
    yield running
    await running.close()


async def decode(decoder: Decoder, tmp_path: Path, body: bytes) -> Decoded:
    path = tmp_path / "image"
    path.write_bytes(body)
    return await decoder.decode(path)


async def reason(decoder: Decoder, tmp_path: Path, body: bytes) -> str:
    with pytest.raises(ImageProblem) as caught:
        await decode(decoder, tmp_path, body)
    return caught.value.reason


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def photo(size: tuple[int, int] = (300, 200)) -> Image.Image:
    with Image.open(io.BytesIO(picture(1, size))) as image:
        return image.convert("RGB")


def png_of(width: int, height: int) -> bytes:
    """Return a small PNG that unpacks to many black pixels."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    packer = zlib.compressobj(9)
    row = bytes(1 + (width + 7) // 8)
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("kind", "extension", "content_type"),
    [
        ("JPEG", "jpg", "image/jpeg"),
        ("PNG", "png", "image/png"),
        ("WEBP", "webp", "image/webp"),
        ("AVIF", "avif", "image/avif"),
        ("GIF", "gif", "image/gif"),
    ],
)
async def test_type_and_extension_come_from_the_bytes(
    decoder: Decoder, tmp_path: Path, kind: str, extension: str, content_type: str
) -> None:
    found = await decode(decoder, tmp_path, encoded(photo(), kind))
    assert (found.extension, found.content_type) == (extension, content_type)
    assert (found.width, found.height) == (300, 200)
    assert [(t.width, t.height) for t in found.thumbnails] == [(40, 27), (120, 80)]
    for thumbnail in found.thumbnails:
        with Image.open(thumbnail.path) as small:
            assert (small.format, small.size) == ("WEBP", (thumbnail.width, thumbnail.height))


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>please log in</body></html>",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%PDF-1.4",
        b"",
        b"\xff\xd8\xff",
        encoded(Image.new("RGB", (9, 9)), "BMP"),
        encoded(Image.new("RGB", (9, 9)), "TIFF"),
    ],
)
async def test_what_is_no_raster_image_of_the_list_is_refused(
    decoder: Decoder, tmp_path: Path, body: bytes
) -> None:
    assert await reason(decoder, tmp_path, body) in {"NOT_AN_IMAGE", "BROKEN_IMAGE"}


def animated(kind: str) -> bytes:
    return encoded(photo(), kind, save_all=True, append_images=[photo().rotate(n * 90) for n in range(1, 4)])


WHOLE = {kind.lower(): encoded(photo(), kind) for kind in ("JPEG", "PNG", "WEBP", "AVIF", "GIF")}
WHOLE |= {f"{kind.lower()}, animated": animated(kind) for kind in ("PNG", "WEBP", "AVIF", "GIF")}


@pytest.mark.parametrize("body", WHOLE.values(), ids=WHOLE)
async def test_a_cut_image_is_refused(decoder: Decoder, tmp_path: Path, body: bytes) -> None:
    assert (await decode(decoder, tmp_path, body)).width == 300
    for left in (len(body) // 2, len(body) * 9 // 10, len(body) - 2, len(body) - 1):
        assert await reason(decoder, tmp_path, body[:left]) == "BROKEN_IMAGE", left - len(body)


@pytest.mark.parametrize("kind", ["gif", "gif, animated"])
async def test_what_browsers_show_of_a_gif_is_taken(decoder: Decoder, tmp_path: Path, kind: str) -> None:
    whole, pixels = WHOLE[kind], (b",", b"!")
    assert whole.endswith(b"\0;")
    for behind in (b"", b"\0", b"\r\n", b"<!-- served by a cache -->", b";;", b"\0" * 9000):
        assert (await decode(decoder, tmp_path, whole + behind)).content_type == "image/gif"
    for instead in (b"\0;", b"\r\n;", b"\0"):  # what is no block ends the picture
        assert (await decode(decoder, tmp_path, whole[:-1] + instead)).content_type == "image/gif"
    for block in pixels:  # a block that began and didn't end
        assert await reason(decoder, tmp_path, whole[:-1] + block) == "BROKEN_IMAGE"


async def test_a_cut_jpeg_with_a_whole_thumbnail_inside_is_refused(decoder: Decoder, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010E] = "d"
    inner = encoded(photo((160, 120)), "JPEG")
    body = encoded(photo(), "JPEG", exif=exif.tobytes() + inner)
    assert (await decode(decoder, tmp_path, body)).width == 300
    assert await reason(decoder, tmp_path, body[:-2]) == "BROKEN_IMAGE"


async def test_bytes_behind_the_end_of_a_jpeg_are_no_fault(decoder: Decoder, tmp_path: Path) -> None:
    assert (await decode(decoder, tmp_path, encoded(photo(), "JPEG") + b"trailer" * 9)).extension == "jpg"


async def test_a_jpeg_whose_further_pictures_are_gone_is_whole(decoder: Decoder, tmp_path: Path) -> None:
    second = photo().rotate(90)
    pair = encoded(photo(), "MPO", save_all=True, append_images=[second])
    alone = pair[: pair.rindex(b"\xff\xd8\xff")]
    for body in (pair, alone):
        assert (await decode(decoder, tmp_path, body)).content_type == "image/jpeg"
    assert await reason(decoder, tmp_path, alone[: len(alone) // 2]) == "BROKEN_IMAGE"


async def test_a_small_file_of_very_many_pixels_is_refused(decoder: Decoder, tmp_path: Path) -> None:
    bomb = png_of(12_000, 12_000)
    assert len(bomb) < 40_000
    assert await reason(decoder, tmp_path, bomb) == "TOO_MANY_PIXELS"
    assert await reason(decoder, tmp_path, png_of(70_000, 8)) == "TOO_MANY_PIXELS"


async def test_the_largest_image_is_decoded_within_the_memory_limit(decoder: Decoder, tmp_path: Path) -> None:
    found = await decode(decoder, tmp_path, encoded(Image.new("RGB", (10_000, 6_000), "teal"), "JPEG"))
    assert found.width * found.height == 60_000_000
    peak = max(child.memory_info().rss for child in psutil.Process().children(recursive=True))
    assert peak < 800 << 20


async def test_the_largest_images_are_decoded_whatever_was_decoded_before(tmp_path: Path) -> None:
    side = 7_745  # 60 megapixels
    shapes = Image.linear_gradient("L").resize((side, side))
    # it needs its coefficients beside its pixels: what the two before it left must be free again
    progressive = encoded(shapes.convert("CMYK"), "JPEG", progressive=True)
    before = [encoded(shapes.convert("RGB"), "JPEG"), encoded(shapes.convert("LA"), "PNG", compress_level=1)]
    usual = Decoder(IngestWorkerSettings(decoders=1, thumbnail_widths=(320, 960)))
    try:
        for body in (*before, progressive, *before, progressive):
            assert (await decode(usual, tmp_path, body)).width == side
    finally:
        await usual.close()


async def test_a_very_tall_image_has_the_thumbnails_that_webp_can_hold(tmp_path: Path) -> None:
    usual = Decoder(IngestWorkerSettings(decoders=1, thumbnail_widths=(320, 960)))
    try:
        found = await decode(usual, tmp_path, png_of(1000, 17_500))
        assert (found.width, found.height) == (1000, 17_500)
        assert [(t.width, t.height) for t in found.thumbnails] == [(320, 5600)]
        assert (await decode(usual, tmp_path, png_of(400, 40_000))).thumbnails == ()
    finally:
        await usual.close()


async def test_an_image_beyond_the_memory_limit_is_refused_and_the_next_one_taken(tmp_path: Path) -> None:
    # WebP's decoder holds three copies beside Pillow's, the most of all formats
    tight = Decoder(IngestWorkerSettings(decoders=1, decoder_memory_bytes=200_000_000))
    body = encoded(Image.new("RGB", (4000, 4000), "teal"), "WEBP", method=0)
    assert await reason(tight, tmp_path, body) == "TOO_MANY_PIXELS"
    assert (await decode(tight, tmp_path, encoded(photo(), "WEBP"))).content_type == "image/webp"
    await tight.close()


async def test_an_animation_of_very_many_frames_is_refused(decoder: Decoder, tmp_path: Path) -> None:
    frames = [Image.new("RGB", (16, 16), (i % 256, i // 2, 255 * (i % 2))) for i in range(500)]
    body = encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    assert await reason(decoder, tmp_path, body) == "TOO_MANY_FRAMES"


async def test_a_short_animation_is_taken_and_its_first_frame_shown(decoder: Decoder, tmp_path: Path) -> None:
    frames = [Image.new("RGB", (200, 100), colour) for colour in ("red", "blue", "green")]
    found = await decode(
        decoder, tmp_path, encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    )
    with Image.open(found.thumbnails[0].path) as small:
        assert small.convert("RGB").getpixel((5, 5))[0] > 200  # type: ignore[index]


async def test_a_decode_that_takes_too_long_is_worth_another_try(tmp_path: Path) -> None:
    hasty = Decoder(IngestWorkerSettings(decoders=1, decode_timeout_seconds=0.001))
    body = encoded(photo((3000, 2000)), "PNG")
    assert await reason(hasty, tmp_path, body) == "DECODE_TIMEOUT"
    assert ImageProblem("DECODE_TIMEOUT", "").transient
    await hasty.close()


@pytest.mark.parametrize("orientation", range(1, 9))
async def test_a_thumbnail_stands_upright_and_the_original_is_not_touched(
    decoder: Decoder, tmp_path: Path, orientation: int
) -> None:
    upright = Image.new("RGB", (200, 100), "blue")
    upright.paste("red", (0, 0, 100, 50))
    exif = Image.Exif()
    exif[0x0112] = orientation
    # stored the way a camera does: turned so that the tag turns it back
    back = {2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}.get(orientation, 1)
    turn = Image.Exif()
    turn[0x0112] = back
    stored = ImageOps.exif_transpose(Image.open(io.BytesIO(encoded(upright, "PNG", exif=turn))))
    body = encoded(stored, "JPEG", quality=95, exif=exif)
    found = await decode(decoder, tmp_path, body)
    assert (tmp_path / "image").read_bytes() == body
    with Image.open(found.thumbnails[-1].path) as small:
        shown = small.convert("RGB")
        assert not small.getexif()
    assert shown.width == 2 * shown.height
    red, blue = shown.getpixel((5, 5)), shown.getpixel((shown.width - 5, shown.height - 5))
    assert red[0] > 180 > blue[0]  # type: ignore[index]


async def test_odd_modes_give_right_thumbnails(decoder: Decoder, tmp_path: Path) -> None:
    cmyk = await decode(decoder, tmp_path, encoded(photo().convert("CMYK"), "JPEG"))
    with Image.open(cmyk.thumbnails[-1].path) as small:
        wanted = photo().resize(small.size).resize((1, 1)).getpixel((0, 0))
        found = small.convert("RGB").resize((1, 1)).getpixel((0, 0))
    assert all(abs(a - b) < 40 for a, b in zip(wanted, found, strict=True))  # type: ignore[arg-type]
    grey = Image.new("I;16", (200, 100), 0x8000)
    sixteen = await decode(decoder, tmp_path, encoded(grey, "PNG"))
    with Image.open(sixteen.thumbnails[0].path) as small:
        assert abs(small.convert("L").getpixel((3, 3)) - 128) < 6  # type: ignore[operator]
    clear = Image.new("RGBA", (200, 100), (255, 0, 0, 0))
    see_through = await decode(decoder, tmp_path, encoded(clear.quantize(), "PNG"))
    with Image.open(see_through.thumbnails[0].path) as small:
        assert small.convert("RGBA").getpixel((3, 3))[3] == 0  # type: ignore[index]


async def test_encodings_of_one_picture_are_near_and_other_pictures_far(
    decoder: Decoder, tmp_path: Path
) -> None:
    names = ["astronaut.jpg", "astronaut.webp", "coffee.jpg", "coffee.avif", "chelsea.jpg", "rocket.jpg"]
    found = {}
    for name in names:
        found[name] = int((await decode(decoder, tmp_path, (PHOTOS / name).read_bytes())).dhash, 16)

    def distance(a: str, b: str) -> int:
        return (found[a] ^ found[b]).bit_count()

    assert distance("astronaut.jpg", "astronaut.webp") <= 6
    assert distance("coffee.jpg", "coffee.avif") <= 6
    assert min(distance("chelsea.jpg", other) for other in names if other != "chelsea.jpg") > 6
