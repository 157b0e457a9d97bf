"""The speech model: put together once, verified, and never replaced by something else in silence."""

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from services.asr.worker import model
from services.asr.worker.model import NoEngine, model_folder
from services.asr.worker.settings import AsrWorkerSettings


async def test_the_wheels_halves_make_the_known_model_even_when_two_join_at_once(tmp_path: Path) -> None:
    settings = AsrWorkerSettings(model_cache=tmp_path, model_dir=None)
    (folder, name), (other, _) = await asyncio.gather(
        asyncio.to_thread(model_folder, settings), asyncio.to_thread(model_folder, settings)
    )
    assert (folder, name) == (other, "base")
    assert _sha256(folder / "model.bin") == "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"
    assert set(os.listdir(folder)) >= {"config.json", "tokenizer.json", "vocabulary.txt"}
    assert os.listdir(tmp_path) == [folder.name]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_model_cut_short_is_joined_again(tmp_path: Path) -> None:
    settings = AsrWorkerSettings(model_cache=tmp_path, model_dir=None)
    folder, _ = model_folder(settings)
    with (folder / "model.bin").open("r+b") as file:
        file.truncate(1000)
    assert (model_folder(settings)[0] / "model.bin").stat().st_size == 145_217_532


def test_a_folder_that_was_set_and_holds_no_model_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoEngine, match=r"no model\.bin"):
        model_folder(AsrWorkerSettings(model_dir=tmp_path))


def test_a_folder_that_was_set_is_used_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "whisper-large"
    folder.mkdir()
    (folder / "model.bin").write_bytes(b"x")
    assert model_folder(AsrWorkerSettings(model_dir=folder)) == (folder, "whisper-large")


def test_without_the_wheels_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "_PARTS", ("frontrow_no_such_package", "frontrow_no_such_package"))
    with pytest.raises(NoEngine, match="not installed"):
        model_folder(AsrWorkerSettings(model_cache=tmp_path, model_dir=None))


def test_halves_with_other_bytes_are_refused_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "_MODEL_SHA256", "0" * 64)
    with pytest.raises(NoEngine, match="hashes to"):
        model_folder(AsrWorkerSettings(model_cache=tmp_path, model_dir=None))
    assert list(tmp_path.iterdir()) == []
