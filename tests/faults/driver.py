"""``python -m tests.faults.driver``: the engine in a process that may be killed and is started again.

It reads orders, one JSON object a line; each is carried out by a process forked for it, and how that one ended is said
on a line: 0, or minus the signal's number. Forking saves the imports: one is there in hundredths of a second.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from dataclasses import asdict, dataclass

import django


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Carry the batch of a quote on: accept it unless a file made it, cancel it where wanted, and run every task."""

    quote_id: str
    api_key: str
    accepts: bool
    cancels: bool
    fault_points: tuple[str, ...]
    marker_folder: str

    def to_line(self) -> str:
        """Give the order as it travels."""
        return json.dumps(asdict(self)) + "\n"


def main() -> None:
    """Carry out orders until there are no more."""
    django.setup()
    # Models can only be imported now; what is imported here no forked process imports again.
    from routing.providers.registry import import_adapters
    from tests.faults import steps

    import_adapters()

    for line in sys.stdin:
        order = Order(**json.loads(line))
        process = os.fork()
        if process == 0:
            code = 1
            try:
                steps.carry_on(order)
                code = 0
            except BaseException:  # noqa: BLE001 -- said aloud, and in the exit code
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(process, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
