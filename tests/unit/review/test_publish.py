"""Published images lose their metadata and keep every pixel."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image, ImageCms, ImageDraw
from PIL.PngImagePlugin import PngInfo

from services.review.publish import NotStrippable, exif, strip

SECRET = b"Secret Place"
XMP = b'<?xpacket begin=""?><x:xmpmeta xmlns:x="adobe:ns:meta/">' + SECRET + b"</x:xmpmeta>"


def picture() -> Image.Image:
    """Return a small picture that isn't symmetric."""
    image = Image.new("RGB", (61, 40), "navy")
    ImageDraw.Draw(image).ellipse((5, 5, 30, 20), fill="orange")
    return image


def metadata(orientation: int) -> Image.Exif:
    """Return EXIF with a place, a maker's note and an orientation."""
    block = Image.Exif()
    block[0x0112] = orientation
    block[0x010E] = SECRET.decode()
    block.get_ifd(0x8825)[1] = "N"
    block.get_ifd(0x8825)[2] = (55.0, 40.0, 34.0)
    return block


def written(kind: str, orientation: int = 6, **more: Any) -> bytes:
    """Return the picture as a file of that kind with metadata."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    file = io.BytesIO()
    picture().save(file, kind, exif=metadata(orientation).tobytes(), icc_profile=profile, **more)
    return file.getvalue()


def pixels(data: bytes) -> bytes:
    """Return the pixels of every frame."""
    with Image.open(io.BytesIO(data)) as image:
        frames = []
        for index in range(getattr(image, "n_frames", 1)):
            image.seek(index)
            frames.append(image.convert("RGBA").tobytes())
        return b"".join(frames)


FILES = {
    "image/jpeg": written("JPEG", quality=90, comment=SECRET, xmp=XMP),
    "image/png": written("PNG"),
    "image/webp": written("WEBP", lossless=True, xmp=XMP),
    "image/avif": written("AVIF", xmp=XMP),
}


@pytest.mark.parametrize("content_type", FILES)
def test_a_published_image_has_no_metadata_and_the_same_pixels(content_type: str) -> None:
    data = FILES[content_type]
    assert SECRET in data
    clean = strip(data, content_type)
    assert SECRET not in clean
    assert pixels(clean) == pixels(data)
    with Image.open(io.BytesIO(clean)) as image:
        assert not image.getexif().get_ifd(0x8825)
        assert image.info.get("icc_profile")
        assert b"xmpmeta" not in image.info.get("xmp", b"")
    assert strip(clean, content_type) == clean


def _box(kind: bytes, content: bytes) -> bytes:
    return (len(content) + 8).to_bytes(4, "big") + kind + content


def _animated(kind: str, **more: Any) -> bytes:
    file = io.BytesIO()
    first = picture().resize((64, 64))
    first.save(file, kind, save_all=True, append_images=[first.rotate(180)], duration=100, **more)
    return file.getvalue()


def _with_chunks_in_frames(webp: bytes) -> bytes:
    """Return the animation with an XMP chunk inside each frame."""
    hidden = b"XMP " + len(XMP).to_bytes(4, "little") + XMP + b"\0" * (len(XMP) % 2)
    made, position = b"", 12
    while position < len(webp):
        size = int.from_bytes(webp[position + 4 : position + 8], "little")
        end = position + 8 + size + size % 2
        content = webp[position + 8 : end]
        if webp[position : position + 4] == b"ANMF":
            content += hidden
        made += webp[position : position + 4] + len(content).to_bytes(4, "little") + content
        position = end
    return b"RIFF" + (len(made) + 4).to_bytes(4, "little") + b"WEBP" + made


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("image/avif", FILES["image/avif"] + _box(b"uuid", b"\xbe\x7a" * 8 + XMP)),
        ("image/avif", FILES["image/avif"] + _box(b"free", XMP)),
        ("image/avif", FILES["image/avif"] + _box(b"skip", XMP)),
        ("image/avif", _animated("AVIF", xmp=XMP) + _box(b"uuid", XMP)),
        ("image/webp", _with_chunks_in_frames(_animated("WEBP", lossless=True))),
    ],
    ids=["a box of its own", "free space", "skipped space", "a sequence", "frames of an animation"],
)
def test_metadata_goes_wherever_it_is_hidden_and_every_pixel_stays(content_type: str, data: bytes) -> None:
    assert SECRET in data
    stripped = strip(data, content_type)
    assert SECRET not in stripped
    assert pixels(stripped) == pixels(data)


def test_bytes_that_no_picture_of_an_avif_points_at_go() -> None:
    data = bytearray(FILES["image/avif"])
    at = data.index(b"mdat")
    size = int.from_bytes(data[at - 4 : at], "big")
    assert at - 4 + size == len(data)  # it is the last box, so it can grow
    data[at - 4 : at] = (size + len(XMP)).to_bytes(4, "big")
    grown = bytes(data) + XMP
    stripped = strip(grown, "image/avif")
    assert SECRET not in stripped
    assert pixels(stripped) == pixels(grown)


@pytest.mark.parametrize("content_type", ["image/jpeg", "image/png", "image/webp"])
def test_the_orientation_stays(content_type: str) -> None:
    with Image.open(io.BytesIO(strip(FILES[content_type], content_type))) as image:
        assert image.getexif().get(0x0112) == 6


def test_a_progressive_jpeg_with_a_second_picture_behind_it_keeps_the_first_only() -> None:
    data = written("JPEG", orientation=1, progressive=True)
    clean = strip(data + b"\xff\xd8 trailing " + SECRET + b"\xff\xd9", "image/jpeg")
    assert SECRET not in clean
    assert pixels(clean) == pixels(data)
    with Image.open(io.BytesIO(clean)) as image:
        assert not dict(image.getexif())


def test_texts_and_trailing_bytes_of_a_png_go() -> None:
    info, file = PngInfo(), io.BytesIO()
    info.add_itxt("Location", SECRET.decode())
    info.add_text("Comment", SECRET.decode())
    picture().quantize(16).save(file, "PNG", pnginfo=info, transparency=0)
    clean = strip(file.getvalue() + SECRET, "image/png")
    assert SECRET not in clean
    assert pixels(clean) == pixels(file.getvalue())


def test_an_animated_gif_keeps_its_frames_and_loses_its_comment() -> None:
    file = io.BytesIO()
    frames = [picture(), picture().rotate(90), picture().rotate(180)]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], loop=0, duration=80, comment=SECRET)
    assert SECRET in file.getvalue()
    clean = strip(file.getvalue() + SECRET, "image/gif")
    assert SECRET not in clean
    assert pixels(clean) == pixels(file.getvalue())
    with Image.open(io.BytesIO(clean)) as image:
        assert (getattr(image, "n_frames", 1), image.info["loop"], image.info["duration"]) == (3, 0, 80)


@pytest.mark.parametrize("content_type", FILES)
def test_a_cut_off_image_is_never_published(content_type: str) -> None:
    data = FILES[content_type]
    for length in (0, 5, len(data) // 3, len(data) - 3):
        with pytest.raises(NotStrippable):
            strip(data[:length], content_type)


@pytest.mark.parametrize("content_type", ["image/svg+xml", "image/tiff", "text/html"])
def test_an_unknown_format_is_never_published(content_type: str) -> None:
    with pytest.raises(NotStrippable):
        strip(FILES["image/png"], content_type)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_minimal_exif_block_states_the_orientation_alone(orientation: int) -> None:
    assert exif.orientation(exif.minimal(orientation)) == orientation
    block = Image.Exif()
    block.load(b"Exif\0\0" + exif.minimal(orientation))
    assert dict(block) == {0x0112: orientation}


@pytest.mark.parametrize("damaged", [b"", b"II*\0", b"MM\0*\xff\xff\xff\xff", b"XX*\0" + bytes(20)])
def test_damaged_exif_counts_as_upright(damaged: bytes) -> None:
    assert exif.orientation(damaged) == 1
