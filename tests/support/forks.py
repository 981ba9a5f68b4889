"""Processes that run at the same time, forked from a server that has loaded their modules.

All tests share the server, since a process has a single one: of two lists of modules it loads only the last.
"""

import multiprocessing
from typing import Final

FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.support.forked"])
