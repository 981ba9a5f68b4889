"""Forks processes from a server that has loaded their modules, so that they start fast and run in parallel.

All tests share the server, since Python has one per process and would load only the last list of modules.
"""

import multiprocessing
from typing import Final

FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.support.forked"])
