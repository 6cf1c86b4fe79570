"""``python -m tests.faults.prove BATCH``: assert the global laws of a batch; the environment names the product."""

from __future__ import annotations

import sys

import django


def main() -> None:
    """Prove and say nothing, or fail."""
    django.setup()
    # Models can only be imported now.
    from tests.harness.laws import assert_laws

    assert_laws(sys.argv[1])


if __name__ == "__main__":
    main()
