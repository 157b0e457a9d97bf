"""What a transcription run's objects are named: by the run, so that no other run's put can touch them."""

from uuid import UUID


def canonical_key(material_id: UUID | str, asr_version: int) -> str:
    """Return where a run stores the material's canonical file."""
    return f"{of_material(material_id)}canonical-{asr_version}.mp4"


def fetched_key(upload_id: UUID | str, asr_version: int) -> str:
    """Return where a run stores a recording that it has fetched from the web."""
    return f"recordings/{upload_id}/original-{asr_version}"


def of_material(material_id: UUID | str) -> str:
    """Return the prefix of what runs store of a material."""
    return f"recordings/{material_id}/"
