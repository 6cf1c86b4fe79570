"""Tokens of an image part, by each provider's published size formula; an image is never counted as text.

References:
    OpenAI, "Images and vision": tiles of 512 px after fitting into 2,048 px and the shorter side into 768 px, or
    patches of 32 px up to 1,536. Anthropic, "Vision": width x height / 750, at most about 1,600.
"""

from __future__ import annotations

import base64
import binascii
import struct
from dataclasses import dataclass

HEADER_CHARACTERS = 87_384
SHORT_HEADER_CHARACTERS = 64
JPEG_CHARACTERS = "/9"
TILE_PX, TILE_FIT_PX, TILE_SHORT_SIDE_PX = 512, 2_048, 768
PATCH_PX, PATCHES_AT_MOST = 32, 1_536
UNKNOWN_SIZE_PX = (1_024, 1_024)
LARGEST_TILED_PX = (2_048, 768)
JPEG_MARK = 0xFF
JPEG_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
AREA_PX_PER_TOKEN, AREA_TOKENS_AT_MOST = 750, 1_600


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePart:
    """An image as a row shows it. ``width_px`` and ``height_px`` are 0 where the row does not hold the image."""

    is_low_detail: bool
    width_px: int = 0
    height_px: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRule:
    """How a family of models counts: ``tile`` (base + per tile), ``patch`` (per mille of patches) or ``area``."""

    kind: str
    base_tokens: int = 0
    tile_tokens: int = 0
    patch_per_mille: int = 0


_AREA = ImageRule(kind="area")
_TILED_85 = ImageRule(kind="tile", base_tokens=85, tile_tokens=170)
# the first prefix that fits decides, so longer ones stand first
_RULES: tuple[tuple[str, ImageRule], ...] = (
    ("gpt-4o-mini", ImageRule(kind="tile", base_tokens=2_833, tile_tokens=5_667)),
    ("gpt-4.1-mini", ImageRule(kind="patch", patch_per_mille=1_620)),
    ("gpt-4.1-nano", ImageRule(kind="patch", patch_per_mille=2_460)),
    ("gpt-5-mini", ImageRule(kind="patch", patch_per_mille=1_620)),
    ("gpt-5-nano", ImageRule(kind="patch", patch_per_mille=2_460)),
    ("o4-mini", ImageRule(kind="patch", patch_per_mille=1_720)),
    ("gpt-5", ImageRule(kind="tile", base_tokens=70, tile_tokens=140)),
    ("o1", ImageRule(kind="tile", base_tokens=75, tile_tokens=150)),
    ("o3", ImageRule(kind="tile", base_tokens=75, tile_tokens=150)),
    ("gpt-", _TILED_85),
    ("claude", _AREA),
    ("anthropic.", _AREA),
)


def image_rule(model_slug: str) -> ImageRule:
    """Give the formula of a model's family; families without a published one count as ``gpt-4o`` does."""
    return next((rule for prefix, rule in _RULES if model_slug.startswith(prefix)), _TILED_85)


def estimated_image_tokens(image: ImagePart, rule: ImageRule) -> int:
    """Give the tokens of an image; one of unknown size counts as 1,024 x 1,024 px."""
    width_px, height_px = (image.width_px, image.height_px) if image.width_px else UNKNOWN_SIZE_PX
    return _tokens(rule, image.is_low_detail, width_px, height_px)


def ceiling_image_tokens(image: ImagePart, rule: ImageRule) -> int:
    """Give the most tokens the image can cost: its own size where known, else the largest the formula allows."""
    if image.width_px:
        return _tokens(rule, image.is_low_detail, image.width_px, image.height_px)
    if rule.kind == "tile":
        return _tokens(rule, image.is_low_detail, *LARGEST_TILED_PX)
    return AREA_TOKENS_AT_MOST if rule.kind == "area" else _patched(rule, PATCHES_AT_MOST)


def _tokens(rule: ImageRule, is_low_detail: bool, width_px: int, height_px: int) -> int:  # noqa: FBT001 - pure switch
    if rule.kind == "area":
        return min(AREA_TOKENS_AT_MOST, -(-width_px * height_px // AREA_PX_PER_TOKEN))
    if rule.kind == "patch":
        return _patched(rule, min(PATCHES_AT_MOST, -(-width_px // PATCH_PX) * -(-height_px // PATCH_PX)))
    if is_low_detail:
        return rule.base_tokens
    return rule.base_tokens + rule.tile_tokens * _tile_count(width_px, height_px)


def _patched(rule: ImageRule, patch_count: int) -> int:
    return -(-patch_count * rule.patch_per_mille // 1_000)


def _tile_count(width_px: int, height_px: int) -> int:
    """Count 512 px tiles of the scaled image, in whole numbers: sides are kept as fractions over ``below``."""
    longer, shorter = max(width_px, height_px), min(width_px, height_px)
    below = 1
    if longer > TILE_FIT_PX:
        longer, shorter, below = longer * TILE_FIT_PX, shorter * TILE_FIT_PX, longer
    if shorter > TILE_SHORT_SIDE_PX * below:
        longer, below = longer * TILE_SHORT_SIDE_PX, shorter
        shorter = TILE_SHORT_SIDE_PX * shorter
    return -(-longer // (TILE_PX * below)) * max(1, -(-shorter // (TILE_PX * below)))


def data_uri_size_px(uri: str) -> tuple[int, int]:
    """Give width and height from the header of a base64 PNG, JPEG, GIF or WebP data URI; (0, 0) if it does not say."""
    head, comma, encoded = uri.partition(",")
    if not comma or not head.endswith(";base64"):
        return 0, 0
    # only a JPEG's size may stand behind other things
    length = HEADER_CHARACTERS if encoded.startswith(JPEG_CHARACTERS) else SHORT_HEADER_CHARACTERS
    cut = encoded[:length]
    try:
        header = base64.b64decode(cut[: len(cut) // 4 * 4], validate=True)
        return _size_px(header)
    except (binascii.Error, struct.error, ValueError, IndexError):
        return 0, 0


def _size_px(header: bytes) -> tuple[int, int]:
    if header.startswith(b"\x89PNG\r\n\x1a\n"):
        return struct.unpack(">II", header[16:24])
    if header.startswith((b"GIF87a", b"GIF89a")):
        return struct.unpack("<HH", header[6:10])
    if header.startswith(b"RIFF") and header[8:12] == b"WEBP":
        return _webp_size_px(header)
    if header.startswith(b"\xff\xd8"):
        return _jpeg_size_px(header)
    return 0, 0


def _webp_size_px(header: bytes) -> tuple[int, int]:
    kind = header[12:16]
    if kind == b"VP8X":
        return int.from_bytes(header[24:27], "little") + 1, int.from_bytes(header[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(header[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width_px, height_px = struct.unpack("<HH", header[26:30])
    return width_px & 0x3FFF, height_px & 0x3FFF


def _jpeg_size_px(header: bytes) -> tuple[int, int]:
    """Walk the segments to the frame header (SOF0 to SOF15 without DHT, JPG and DAC)."""
    position = 2
    while position + 9 <= len(header) and header[position] == JPEG_MARK:
        marker = header[position + 1]
        if marker in JPEG_FRAME_MARKERS:
            height_px, width_px = struct.unpack(">HH", header[position + 5 : position + 9])
            return width_px, height_px
        position += 2 + int.from_bytes(header[position + 2 : position + 4], "big")
    return 0, 0
