"""A program that reads files: `bomb_process.py FILE …` prints which files were refused, and its peak memory."""

import json
import sys
from pathlib import Path

from registry.benchmarks.contract import read_benchmark
from registry.errors import IngestError
from registry.logs.recognition import log_file, log_questions


def main() -> None:
    refused = {}
    for path in map(Path, sys.argv[1:]):
        try:
            log = log_file(path)
            read_benchmark(log or path, documents=None if log is None else log_questions(log))
        except IngestError as error:
            refused[path.name] = str(error)
    # VmHWM is the peak of this program only; getrusage includes the memory of the parent process.
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    print(json.dumps({"refused": refused, "peak_mib": int(line.split()[1]) / 1024}))


if __name__ == "__main__":
    main()
