"""Tell whether the lock files still answer what is asked for in ``requirements/*.in``; needs no network.

A lock is current when each requirement's name is pinned, the pin satisfies what is asked, and every pin has a hash.
``make lock`` makes it anew.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOLDER = Path(__file__).resolve().parent.parent / "requirements"


def asked(path: Path) -> list[Requirement]:
    """Read what is asked for."""
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("-")]


def pinned(path: Path) -> tuple[dict[str, list[str]], list[str]]:
    """Read the pins (one name may have several, by marker), and the names that lack a hash."""
    pins: dict[str, list[str]] = {}
    without_hash = []
    for entry in re.sub(r"\\\n", " ", path.read_text(encoding="utf-8")).splitlines():
        found = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;]+)", entry)
        if found is None:
            continue
        pins.setdefault(canonicalize_name(found[1]), []).append(found[2])
        if "--hash=sha256:" not in entry:
            without_hash.append(found[1])
    return pins, without_hash


def main() -> int:
    """Print what is wrong; give 1 if anything is."""
    problems = []
    run_pins, _ = pinned(FOLDER / "run.txt")
    for name in ("run", "dev", "rows", "openai-1", "openai-2", "focus-validator"):
        pins, without_hash = pinned(FOLDER / f"{name}.txt")
        problems += [f"{name}.txt: {package} has no hash" for package in without_hash]
        # Older SDKs and the validator lie beside the product's packages, not among them.
        known = pins if name.startswith(("openai", "focus")) else {**run_pins, **pins}
        for requirement in asked(FOLDER / f"{name}.in"):
            versions = known.get(canonicalize_name(requirement.name), [])
            if not any(requirement.specifier.contains(version, prereleases=True) for version in versions):
                problems.append(f"{name}.txt does not answer {requirement}: it has {', '.join(versions) or 'nothing'}")
        if name == "dev":
            both = pins.keys() & run_pins.keys()
            problems += [f"dev.txt and run.txt differ on {n}" for n in both if set(pins[n]) != set(run_pins[n])]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
