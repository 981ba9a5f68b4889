"""Simulates many workers on one evaluation: how much is computed twice, and how evenly they end.

    python -m tests.bench.bench_schedule [--questions 250] [--workers 1,2,4,8,16,64] [--shots 5]
    python -m tests.bench.bench_schedule --measure 1x1,2x1,1x2 [--dtype bfloat16] [--subjects 4] [--repeats 3]

Shards are cut by the registry's planner and claimed oldest first, as workers claim them. A worker computes a subject's
examples when it meets the subject, and keeps them; the rest of a shard costs its own tokens. Tokens are counted with a
real tokenizer on the sample's subjects, as if each had so many questions. Nothing is scored: a token takes one unit of time.

`ideal` is what each subject's examples, computed once in all, and perfectly even ends would give. `own subject first` is
another order, for comparison: a worker goes on with its subject, and begins one that nobody is at before it joins another.

--measure really scores shards of the sample, on a machine with nothing else to do: 2x1 means two workers of one thread
each, which take the shards oldest first. Each is a process that begins with nothing kept.
"""

import argparse
import heapq
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from registry.queue.planning import PlannedQuestion, plan_shards
from tests.bench.bench_peers import OURS, in_process
from tests.bench.prompts import ROOT, SAMPLES, Prompt, make_case, read_questions, smollm2
from workers.engine.trie import build_trie, common_length


@dataclass(frozen=True)
class Work:
    """A shard: its subject, and the tokens of its questions beside the subject's examples."""

    subject: str
    tokens: int


@dataclass
class Queue:
    """What nobody has claimed, oldest first, and the subject that each busy worker is at."""

    waiting: list[Work]
    at: dict[int, str] = field(default_factory=dict)


Claim = Callable[[Queue, int], Work]


def oldest_first(queue: Queue, _worker: int) -> Work:
    """As `registry.queue.claims` takes them."""
    return queue.waiting[0]


def own_subject_first(queue: Queue, worker: int) -> Work:
    """The worker's subject, then one that no other is at, then the oldest."""
    own = queue.at.get(worker)
    others = {subject for number, subject in queue.at.items() if number != worker}
    return min(queue.waiting, key=lambda work: (work.subject != own, work.subject in others))


def simulate(shards: Sequence[Work], headers: dict[str, int], workers: int, claim: Claim) -> tuple[int, int]:
    """(tokens computed by all, when the last worker ends)."""
    queue = Queue(list(shards))
    free = [(0, worker) for worker in range(workers)]
    heapq.heapify(free)
    kept: dict[int, set[str]] = {worker: set() for worker in range(workers)}
    computed = ended = 0
    while queue.waiting:
        now, worker = heapq.heappop(free)
        work = claim(queue, worker)
        queue.waiting.remove(work)
        queue.at[worker] = work.subject
        tokens = work.tokens + (0 if work.subject in kept[worker] else headers[work.subject])
        kept[worker].add(work.subject)
        computed += tokens
        ended = max(ended, now + tokens)
        heapq.heappush(free, (now + tokens, worker))
    return computed, ended


def count_tokens(
    path: Path, subjects: Sequence[str], shots: int, variants: str, model: Path
) -> tuple[dict[str, int], dict[str, list[int]]]:
    """(tokens of each subject's examples, tokens that each of some of its questions adds)."""
    from transformers import AutoTokenizer

    encoder = AutoTokenizer.from_pretrained(model)
    headers, added = {}, {}
    for subject in subjects:
        questions, pool = read_questions(path, None, subject)
        contexts = []
        for question in questions[:4]:
            case = make_case(subject, [question], pool, shots, variants)
            contexts.append([encoder(text)["input_ids"] for text, _, _ in case.prompts])
        headers[subject] = min(common_length(contexts[0][0], one[0]) for one in contexts[1:])
        added[subject] = [len(build_trie(one)) - headers[subject] for one in contexts]
    return headers, added


def cut(added: dict[str, list[int]], questions: int, orders: int) -> list[Work]:
    """Shards of so many questions of each subject, as submitting cuts them."""
    planned = [
        PlannedQuestion(number, subject, 4, orders, orders)
        for place, subject in enumerate(added)
        for number in range(place * questions, (place + 1) * questions)
    ]
    shards = []
    for shard in plan_shards(planned):
        tokens = 0
        for question in shard:
            known = added[question.subject or ""]
            tokens += known[question.question_id % len(known)]
        shards.append(Work(shard[0].subject or "", tokens))
    return shards


def real_shards(subjects: Sequence[str], shots: int) -> list[list[Prompt]]:
    """The prompts of each shard of the sample's questions under `cyclic`."""
    shards = []
    for subject in subjects:
        questions, pool = read_questions(SAMPLES / "mmlu.jsonl", None, subject)
        planned = [PlannedQuestion(number, subject, 4, 4, 4) for number in range(len(questions))]
        for shard in plan_shards(planned):
            asked = [questions[question.question_id] for question in shard]
            shards.append(make_case(subject, asked, pool, shots, "cyclic").prompts)
    return shards


def measure(shards: Sequence[Sequence[Prompt]], workers: int, threads: int, model: Path, dtype: str) -> float:
    """Seconds until all shards are scored by so many processes, once all are ready."""
    with ExitStack() as stack:
        asking = [stack.enter_context(in_process(OURS, model, threads, dtype)) for _ in range(workers)]
        for ask in asking:
            ask([("The capital of France is", [" A", " B"], "other")])  # opens its engine
        waiting = deque(shards)

        def work(ask: Any) -> None:
            while waiting:
                with suppress(IndexError):  # another took the last one
                    ask(waiting.popleft(), keep=True)

        with ThreadPoolExecutor(workers) as pool:
            began = time.perf_counter()
            list(pool.map(work, asking))
            return time.perf_counter() - began


def measure_all(given: argparse.Namespace, subjects: Sequence[str], model: Path) -> None:
    """Prints the table of real runs, which take turns."""
    shards = real_shards(subjects[: given.subjects], given.shots)
    prompts = sum(map(len, shards))
    wanted = [tuple(map(int, one.split("x"))) for one in given.measure.split(",")]
    seconds: dict[tuple[int, ...], list[float]] = {one: [] for one in wanted}
    for _ in range(given.repeats):
        for workers, threads in wanted:
            seconds[workers, threads].append(measure(shards, workers, threads, model, given.dtype))
    first = statistics.median(seconds[wanted[0]])
    print("| workers | threads of each | prompts/s | speed-up over the first |\n" + "|---" * 4 + "|")
    for workers, threads in wanted:
        taken = statistics.median(seconds[workers, threads])
        print(f"| {workers} | {threads} | {prompts / taken:.2f} | {first / taken:.2f} |")


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--questions", type=int, default=250, help="of each subject, as MMLU has them on average")
    parser.add_argument("--workers", default="1,2,4,8,16,64")
    parser.add_argument("--shots", type=int, default=5)
    parser.add_argument(
        "--model", type=Path, help="a folder, of which counting takes the tokenizer; default: SmolLM2, converted once"
    )
    parser.add_argument("--measure", help="WORKERSxTHREADS to be scored with, such as 1x1,2x1,1x2")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--subjects", type=int, default=4, help="of the sample, that are really scored")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args(arguments)
    model = given.model or smollm2(ROOT / "build" / "bench" / "smollm2")
    everything, _ = read_questions(SAMPLES / "mmlu.jsonl", None, None)
    subjects = list(dict.fromkeys(str(question.subject) for question in everything))
    if given.measure:
        measure_all(given, subjects, model)
        return
    print(
        "| orders | workers | shards | tokens computed / unique | speed-up over one worker, of the ideal "
        "| own subject first: tokens | speed-up |\n" + "|---" * 7 + "|"
    )
    for variants, orders in (("cyclic", 4), ("full", 24)):
        headers, added = count_tokens(SAMPLES / "mmlu.jsonl", subjects, given.shots, variants, model)
        shards = cut(added, given.questions, orders)
        unique = sum(headers.values()) + sum(work.tokens for work in shards)
        for workers in map(int, given.workers.split(",")):
            cells = []
            for claim in (oldest_first, own_subject_first):
                computed, ended = simulate(shards, headers, workers, claim)
                cells.append(f"{computed / unique:.3f} | {unique / ended:.2f} ({unique / ended / workers:.2f})")
            print(f"| `{variants}` | {workers} | {len(shards)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
