"""``python -m config.supervisor``."""

from __future__ import annotations

import errno
import os
import shutil
import sys

from config import env
from config.postgres.problem import PostgresProblem
from config.supervisor.environment import BASE_DIR, forget_own_env_file, read_options
from config.supervisor.running import Supervisor, refuse, say
from config.supervisor.state import AlreadyRunning, StartRefused, StateDir


def main() -> None:
    """Run the product; end with 0 after a stop or when it already runs, with 1 and a sentence when it cannot."""
    if sys.platform != "linux" or shutil.which("setpriv") is None:
        refuse("The start script needs Linux with setpriv (package util-linux).")
    os.chdir(BASE_DIR)
    try:
        options = read_options()
        state = StateDir(env.path("LANEHOUSE_STATE_DIR", BASE_DIR / ".lanehouse"))
        state.make()
        forget_own_env_file(state.env_file)
        with state.lock(f"{options.url} (process {os.getpid()})"):
            Supervisor(state, options).run()
    except AlreadyRunning as found:
        say(str(found))
    except (StartRefused, PostgresProblem, env.EnvironmentInvalid) as problem:
        refuse(str(problem))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            refuse(f"The disk is full: {error.filename or BASE_DIR}.")
        refuse(f"{error.strerror}: {error.filename or ''}.")


if __name__ == "__main__":
    main()
