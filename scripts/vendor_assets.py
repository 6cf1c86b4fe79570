"""Fetch the pinned front-end packages, copy the files we serve and write down where each came from.

Run by hand when a pin changes: ``python scripts/vendor_assets.py``. Needs ``npm`` on the path; nothing else does.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "static" / "vendor"
SPRITE = ROOT / "static" / "icons.svg"

ICONS = (
    "activity",
    "alert-triangle",
    "arrow-down",
    "arrow-up",
    "book-2",
    "chart-bar",
    "check",
    "chevron-down",
    "chevron-right",
    "clock",
    "copy",
    "currency-dollar",
    "device-desktop",
    "dots",
    "download",
    "external-link",
    "file-invoice",
    "key",
    "layout-dashboard",
    "logout",
    "menu-2",
    "moon",
    "plus",
    "printer",
    "receipt",
    "refresh",
    "route",
    "scale",
    "search",
    "settings",
    "shield-check",
    "stack-2",
    "sun",
    "tag",
    "upload",
    "users",
    "wallet",
    "webhook",
    "x",
)

_OUTER = re.compile(r"^.*?<svg[^>]*>|</svg>\s*$", re.DOTALL)
_FRAME = re.compile(r'\s*<path stroke="none" d="M0 0h24v24H0z" fill="none" />')


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One pinned npm package and where each of its files goes, by path inside the package."""

    name: str
    version: str
    licence: str
    files: tuple[tuple[str, Path], ...]


PACKAGES = (
    Package(
        name="htmx.org",
        version="2.0.11",
        licence="0BSD",
        files=(("dist/htmx.min.js", VENDOR / "htmx.min.js"),),
    ),
    Package(
        name="idiomorph",
        version="0.8.0",
        licence="0BSD",
        files=(("dist/idiomorph-ext.min.js", VENDOR / "idiomorph-ext.min.js"),),
    ),
    Package(
        name="@fontsource-variable/inter",
        version="5.3.0",
        licence="OFL-1.1",
        files=(
            ("files/inter-latin-wght-normal.woff2", VENDOR / "inter-latin.woff2"),
            ("files/inter-latin-ext-wght-normal.woff2", VENDOR / "inter-latin-ext.woff2"),
            ("LICENSE", VENDOR / "inter-LICENSE.txt"),
        ),
    ),
    Package(
        name="axe-core",
        version="4.14.1",
        licence="MPL-2.0",
        files=(("axe.min.js", ROOT / "tests" / "browser" / "axe.min.js"),),
    ),
)
TABLER = Package(
    name="@tabler/icons",
    version="3.52.0",
    licence="MIT",
    files=(("LICENSE", VENDOR / "tabler-LICENSE.txt"),),
)


def unpack(package: Package, folder: Path) -> Path:
    """Give the folder of the unpacked package."""
    npm = shutil.which("npm")
    if npm is None:
        message = "npm is not on the path"
        raise SystemExit(message)
    target = folder / package.name.replace("/", "-")
    target.mkdir()
    command = [npm, "pack", "--silent", f"{package.name}@{package.version}"]
    subprocess.run(command, cwd=target, check=True, capture_output=True)  # noqa: S603 -- the pins above are the only input
    with tarfile.open(next(target.glob("*.tgz"))) as archive:
        archive.extractall(target, filter="data")
    return target / "package"


def symbol(name: str, source: str) -> str:
    """Give one icon as a sprite symbol, without the invisible frame that every source carries."""
    body = " ".join(_FRAME.sub("", _OUTER.sub("", source)).split())
    return (
        f'<symbol id="{name}" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.75" '
        f'stroke-linecap="round" stroke-linejoin="round">{body}</symbol>'
    )


def write_sprite(tabler: Path) -> None:
    """Write every listed icon into the one sprite file."""
    symbols = [symbol(name, (tabler / "icons" / "outline" / f"{name}.svg").read_text()) for name in ICONS]
    SPRITE.write_text('<svg xmlns="http://www.w3.org/2000/svg">\n' + "\n".join(symbols) + "\n</svg>\n")


def copy_files(package: Package, unpacked: Path) -> list[tuple[Path, Package]]:
    """Copy the package's files to their places and give what was written."""
    for source, target in package.files:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(unpacked / source, target)
    return [(target, package) for _, target in package.files]


def record(entries: list[tuple[Path, Package]]) -> str:
    """Give the text of VENDORED.md."""
    lines = [
        "# Vendored files",
        "",
        "Written by `scripts/vendor_assets.py`; do not edit. A test compares every hash.",
        "",
        "| file | package | version | licence | SHA-256 |",
        "|---|---|---|---|---|",
    ]
    for path, package in entries:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        lines.append(
            f"| `{path.relative_to(ROOT)}` | {package.name} | {package.version} | {package.licence} | `{digest}` |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Fetch everything and rewrite the vendored files."""
    VENDOR.mkdir(parents=True, exist_ok=True)
    entries: list[tuple[Path, Package]] = []
    with tempfile.TemporaryDirectory() as name:
        for package in PACKAGES:
            entries += copy_files(package, unpack(package, Path(name)))
        tabler = unpack(TABLER, Path(name))
        entries += copy_files(TABLER, tabler)
        write_sprite(tabler)
    entries.append((SPRITE, TABLER))
    (VENDOR / "VENDORED.md").write_text(record(entries))
    sys.stdout.write(f"{len(entries)} files written\n")


if __name__ == "__main__":
    main()
