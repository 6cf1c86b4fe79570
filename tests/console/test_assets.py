"""What is served beside the pages: pinned, small, readable in both themes."""

import hashlib
import re
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
CSS = (ROOT / "static" / "app.css").read_text()
SCRIPT = (ROOT / "static" / "app.js").read_text()
TOKENS, RULES = CSS.partition("/* tokens */")[2].split("/* end of tokens */")
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([a-z-]+):light-dark\((#[0-9a-f]+),(#[0-9a-f]+)\)", TOKENS)
}
READ_ON = [
    ("ink", "card", 4.5),
    ("ink", "page", 4.5),
    ("ink", "run-bg", 4.5),
    ("ink", "head", 4.5),
    ("muted", "card", 4.5),
    ("muted", "page", 4.5),
    ("muted", "head", 4.5),
    ("muted", "hover", 4.5),
    ("muted", "run-bg", 4.5),
    ("muted", "track", 4.5),
    ("accent", "card", 4.5),
    ("accent", "page", 4.5),
    ("accent", "hover", 4.5),
    ("accent", "run-bg", 4.5),
    ("on-primary", "primary", 4.5),
    ("on-primary", "primary-hover", 4.5),
    ("ok", "ok-bg", 4.5),
    ("warn", "warn-bg", 4.5),
    ("bad", "bad-bg", 4.5),
    ("bad", "card", 4.5),
    ("bad", "hover", 4.5),
    ("bad", "run-bg", 4.5),
    ("run", "run-bg", 4.5),
    ("run", "page", 4.5),
    ("field", "card", 3.0),
    ("accent", "track", 3.0),
    ("bad", "track", 3.0),
]


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    channels = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("text", "ground", "least"), READ_ON)
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_a_pair_of_tokens_can_be_read(text: str, ground: str, least: float, theme: int) -> None:
    assert contrast(COLOURS[text][theme], COLOURS[ground][theme]) >= least


def test_no_colour_is_written_outside_the_token_block() -> None:
    assert not re.search(r"#[0-9a-f]{3,8}\b|\b(rgb|hsl|oklch|color-mix)\(", RULES)


def test_our_own_files_stay_in_their_budget() -> None:
    assert len(CSS.encode()) <= 24_000
    assert len(SCRIPT.encode()) <= 8 * 1024


def test_every_vendored_file_has_the_hash_that_was_written_down() -> None:
    table = (ROOT / "static" / "vendor" / "VENDORED.md").read_text()
    rows = re.findall(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", table, re.MULTILINE)
    assert rows
    for path, digest in rows:
        assert hashlib.sha256((ROOT / path).read_bytes()).hexdigest() == digest, path


def test_every_file_in_the_vendor_folder_is_written_down() -> None:
    table = (ROOT / "static" / "vendor" / "VENDORED.md").read_text()
    files = [path for path in (ROOT / "static" / "vendor").iterdir() if path.name != "VENDORED.md"]
    assert [path.name for path in files if path.name not in table] == []


def test_every_icon_that_a_template_names_is_in_the_sprite() -> None:
    sprite = set(re.findall(r'<symbol id="([^"]+)"', (ROOT / "static" / "icons.svg").read_text()))
    named = {
        name
        for path in (ROOT / "templates").rglob("*.html")
        for name in re.findall(r'{% icon "([^"]+)" %}', path.read_text())
    }
    assert named <= sprite


def test_no_template_has_an_inline_style_or_script() -> None:
    for path in (ROOT / "templates").rglob("*.html"):
        text = path.read_text()
        assert not re.search(
            r"\sstyle=|<style|<script(?![^>]*\ssrc=)(?![^>]*application/json)|\son[a-z]+=|hx-on", text
        ), path
