"""Run all figures, or those named."""

from __future__ import annotations

import importlib
import sys

FIGURES = (
    "quote_path", "quote_load", "quote_steps", "engine_rows", "engine_wait", "upload", "sdk_files", "exports",
    "ledger", "match",
)  # fmt: skip


def main(names: list[str]) -> None:
    """Run the figures in their order."""
    for name in names or FIGURES:
        importlib.import_module(f"bench.{name}").run()


if __name__ == "__main__":
    main(sys.argv[1:])
