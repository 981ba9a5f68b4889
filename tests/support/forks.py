"""Processes that are at work at once: one server has the modules loaded that they need, and forks them.

One for all, since a process has a single such server: of two lists of modules it would load the one that was given last.
"""

import multiprocessing
from typing import Final

FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.support.forked"])
