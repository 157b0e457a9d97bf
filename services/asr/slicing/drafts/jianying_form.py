"""The form of JianYing's JSON: which fields there are, with the values that a plain draft has in them."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]

# The last version whose drafts are plain text, and which every later one still opens.
_APP = {"app_id": 3704, "app_source": "lv", "app_version": "5.9.0", "os": "windows"}
_VERSION, _NEW_VERSION = 360000, "110.0.0"
# Where the application puts the subtitles that it recognises itself, in half heights from the middle.
CAPTION_HEIGHT = -0.8
_CAPTION_SIZE = 8.0

MATERIALS = (
    *("ai_translates", "audio_balances", "audio_effects", "audio_fades", "audio_track_indexes", "audios"),
    *("beats", "canvases", "chromas", "color_curves", "digital_humans", "drafts", "effects", "flowers"),
    *("green_screens", "handwrites", "hsl", "images", "log_color_wheels", "loudnesses"),
    *("manual_deformations", "masks", "material_animations", "material_colors", "multi_language_refs"),
    *("placeholders", "plugin_effects", "primary_color_wheels", "realtime_denoises", "shapes"),
    *("smart_crops", "smart_relights", "sound_channel_mappings", "speeds", "stickers", "tail_leaders"),
    *("text_templates", "texts", "time_marks", "transitions", "video_effects", "video_trackings"),
    *("videos", "vocal_beautifys", "vocal_separations"),
)
_KEYFRAMES = ("adjusts", "audios", "effects", "filters", "handwrites", "stickers", "texts", "videos")
_LISTED_TYPES = (0, 1, 2, 3, 6, 7, 8)


def content(
    *,
    draft_id: str,
    name: str,
    fps: float,
    size: tuple[int, int],
    duration_us: int,
    materials: dict[str, list[Json]],
    tracks: list[Json],
) -> Json:
    """Return the draft itself."""
    return {
        "canvas_config": {"width": size[0], "height": size[1], "ratio": "original"},
        "color_space": 0,
        "config": _config(),
        "cover": None,
        "create_time": 0,
        "duration": duration_us,
        "extra_info": None,
        "fps": fps,
        "free_render_index_mode_on": False,
        "group_container": None,
        "id": draft_id,
        "keyframe_graph_list": [],
        "keyframes": {name: [] for name in _KEYFRAMES},
        "last_modified_platform": _APP,
        "materials": materials,
        "mutable_config": None,
        "name": name,
        "new_version": _NEW_VERSION,
        "platform": _APP,
        "relationships": [],
        "render_index_track_mode_on": False,
        "retouch_cover": None,
        "source": "default",
        "static_cover_image_path": "",
        "time_marks": None,
        "tracks": tracks,
        "update_time": 0,
        "version": _VERSION,
    }


def _config() -> Json:
    counters = ("adjust", "combination", "sticker")
    return {
        **{f"{name}_max_index": 1 for name in counters},
        **{f"{name}_last_index": 1 for name in ("extract_audio", "original_sound", "record_audio")},
        "attachment_info": [],
        "export_range": None,
        "lyrics_recognition_id": "",
        "lyrics_sync": True,
        "lyrics_taskinfo": [],
        "maintrack_adsorb": True,
        "material_save_mode": 0,
        **{f"multi_language_{name}": "none" for name in ("current", "main", "mode")},
        "multi_language_list": [],
        "subtitle_keywords_config": None,
        "subtitle_recognition_id": "",
        "subtitle_sync": True,
        "subtitle_taskinfo": [],
        "system_font_list": [],
        "video_mute": False,
        "zoom_info_params": None,
    }


def track(track_id: str, kind: str, segments: list[Json]) -> Json:
    """Return a track of one kind: `video`, `audio`, `text`."""
    return {
        "attribute": 0,
        "flag": 0,
        "id": track_id,
        "is_default_name": True,
        "name": "",
        "segments": segments,
        "type": kind,
    }


def segment(segment_id: str, material_id: str, target: tuple[int, int], speed_id: str) -> Json:
    """Return a piece of a track: start and length on the timeline in microseconds."""
    return {
        "id": segment_id,
        "material_id": material_id,
        "target_timerange": {"start": target[0], "duration": target[1]},
        "extra_material_refs": [speed_id],
        "clip": {
            "alpha": 1.0,
            "flip": {"horizontal": False, "vertical": False},
            "rotation": 0.0,
            "scale": {"x": 1.0, "y": 1.0},
            "transform": {"x": 0.0, "y": 0.0},
        },
        "common_keyframes": [],
        **{f"enable_{name}": True for name in ("adjust", "color_curves", "color_wheels", "lut")},
        "enable_color_correct_adjust": False,
        "enable_color_match_adjust": False,
        "enable_smart_color_adjust": False,
        "hdr_settings": {"intensity": 1.0, "mode": 1, "nits": 1000},
        "is_tone_modify": False,
        "keyframe_refs": [],
        "last_nonzero_volume": 1.0,
        "reverse": False,
        "speed": 1.0,
        "track_attribute": 0,
        "track_render_index": 0,
        "uniform_scale": {"on": True, "value": 1.0},
        "visible": True,
        "volume": 1.0,
    }


def speed(speed_id: str) -> Json:
    """Return the speed of a segment: as it was recorded."""
    return {"id": speed_id, "curve_speed": None, "mode": 0, "speed": 1.0, "type": "speed"}


def material(
    material_id: str, kind: str, *, name: str, path: str, duration_us: int, size: tuple[int, int]
) -> Json:
    """Return a file of a draft: `videos` with picture and sound, `audios` with sound alone."""
    common = {
        "category_id": "",
        "category_name": "local",
        "duration": duration_us,
        "id": material_id,
        "local_material_id": "",
        "path": path,
    }
    if kind == "audios":
        return common | {"check_flag": 3, "name": name, "type": "extract_music", "wave_points": []}
    corners = {f"{v}_{h}_{axis}": float(there) for v, h, axis, there in _corners()}
    return common | {
        "audio_fade": None,
        "check_flag": 63487,
        "crop": corners,
        "crop_ratio": "free",
        "crop_scale": 1.0,
        "has_audio": True,
        "height": size[1],
        "material_id": material_id,
        "material_name": name,
        "media_path": "",
        "type": "video",
        "width": size[0],
    }


def _corners() -> list[tuple[str, str, str, bool]]:
    """Return the corners of an uncropped picture: which, and whether it lies at the far end of an axis."""
    return [
        (v, h, axis, h == "right" if axis == "x" else v == "lower")
        for v in ("upper", "lower")
        for h in ("left", "right")
        for axis in ("x", "y")
    ]


def text(text_id: str, words: str) -> Json:
    """Return a caption: white, in the application's own font, wrapped at four fifths of the width."""
    # positions are counted as the application counts: in units of UTF-16
    units = len(words.encode("utf-16-le")) // 2
    solid = {"render_type": "solid", "solid": {"alpha": 1.0, "color": [1.0, 1.0, 1.0]}}
    style = {
        "fill": {"alpha": 1.0, "content": solid},
        "range": [0, units],
        "size": _CAPTION_SIZE,
        "bold": False,
        "italic": False,
        "underline": False,
        "strokes": [],
    }
    return {
        "id": text_id,
        "content": json.dumps({"styles": [style], "text": words}, ensure_ascii=False),
        "alignment": 1,
        "check_flag": 7,
        "force_apply_line_max_width": False,
        "global_alpha": 1.0,
        "letter_spacing": 0.0,
        "line_feed": 1,
        "line_max_width": 0.82,
        "line_spacing": 0.02,
        "type": "subtitle",
        "typesetting": 0,
    }


def meta(
    *,
    draft_id: str,
    name: str,
    folder_path: str,
    root_path: str,
    duration_us: int,
    media: list[Json],
) -> Json:
    """Return what the application's list of drafts shows, and the list of imported media."""
    return _unused() | {
        "draft_fold_path": folder_path,
        "draft_id": draft_id,
        "draft_materials": [{"type": kind, "value": media if kind == 0 else []} for kind in _LISTED_TYPES],
        "draft_name": name,
        "draft_root_path": root_path,
        "tm_duration": duration_us,
    }


def _unused() -> Json:
    """Return what the list of drafts has for templates, clouds and teams: nothing."""
    clouds = ("capcut_purchase_info", "purchase_info", "template_id", "tutorial_info")
    texts = ("cover", "deeplink_url", "new_version", "removable_storage_device", "type")
    flags = ("ai_packaging_used", "ai_shorts", "ai_translate", "article_video_draft", "invisible")
    team = {f"draft_enterprise_{field}": "" for field in ("extra", "id", "name")}
    return {
        "cloud_package_completed_time": "",
        **{f"draft_cloud_{field}": "" for field in (*clouds, "videocut_purchase_info")},
        "draft_cloud_last_action_download": False,
        "draft_cloud_materials": [],
        **{f"draft_{field}": "" for field in texts},
        "draft_enterprise_info": {**team, "enterprise_material": []},
        **{f"draft_is_{field}": False for field in flags},
        "draft_is_from_deeplink": "false",
        "draft_materials_copied_info": [],
        "draft_segment_extra_info": [],
        "tm_draft_cloud_completed": "",
        "tm_draft_cloud_modified": 0,
        "tm_draft_removed": 0,
    }


def listed(
    entry_id: str, kind: str, *, name: str, path: str, duration_us: int, size: tuple[int, int]
) -> Json:
    """Return an entry in the list of imported media; the application matches it by its path."""
    return {
        "create_time": 0,
        "duration": duration_us,
        "extra_info": name,
        "file_Path": path,
        "height": size[1],
        "id": entry_id,
        "import_time": 0,
        "import_time_ms": 0,
        "item_source": 1,
        "md5": "",
        "metetype": kind,
        "roughcut_time_range": {"start": 0, "duration": duration_us},
        "sub_time_range": {"start": -1, "duration": -1},
        "type": 0,
        "width": size[0],
    }
