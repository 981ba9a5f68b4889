"""Evaluates the real model under every preset through the queue, and compares NPSQ with an independent program.

`python -m tests.integration.presets 24` uses this number of questions of each sample and prints the results.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.prompts import PEER, ROOT, smollm2
from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import get_engine, read_session, write_session
from registry.lookups import find_evaluation
from registry.operations.migrate import upgrade
from registry.predictions.prompts import prompts_of
from registry.prompting.prompts import Prompt
from registry.prompting.protocols.presets import PRESETS
from registry.prompting.protocols.store import with_room
from registry.queue.evaluations import EvaluationRequest, select_questions, submit
from registry.revisions.store import RevisionRequest, add_revision
from registry.settings import Settings
from tests.support.commands import shuffleboard_json
from tests.support.population import CSQA, MMLU
from workers.artifacts import inspect_files
from workers.loop import WorkerLoop
from workers.scorer import TransformersScorer

SCORED = ("symbols", "hybrid", "cloze")
MOST_TOKENS = 512
"""Tokens of a written answer at most; a model that does not stop writes as many as its preset allows."""
BENCHMARKS = {"mmlu": MMLU, "csqa": CSQA}


def ask_all(folder: Path, home: Path, questions: int, *, texts: int | None = None) -> dict[tuple[str, str], int]:
    """Evaluate the model in `folder` under every preset; return evaluation ids by (benchmark, preset).

    Presets that score use `choice-only` on `questions` questions of each benchmark. Presets that write use the original
    order of `texts` questions of the first benchmark.
    """
    url = f"sqlite:///{home / 'shuffleboard.db'}"
    upgrade(url)
    engine = get_engine(url)
    request = RevisionRequest("huggingface", str(folder)).checked()
    files = inspect_files(request)
    ids = {}
    with write_session(engine) as session:
        add_revision(session, "SmolLM2", request, files=files)
        for benchmark, path in BENCHMARKS.items():
            import_benchmark(session, read_benchmark(path), name=benchmark)
            for preset in PRESETS:
                if preset not in SCORED and benchmark != next(iter(BENCHMARKS)):
                    continue
                variants, limit = ("choice-only", questions) if preset in SCORED else ("original", texts or questions)
                room = PRESETS[preset].get("generation", {}).get("max_tokens", 0)
                protocol = with_room(session, preset, MOST_TOKENS) if room > MOST_TOKENS else preset
                fields = EvaluationRequest("SmolLM2", benchmark, variants, protocol, limit=limit)
                ids[benchmark, preset] = submit(session, fields)[0].id
    loop = WorkerLoop(engine, Settings(home=home, poll_seconds=0.1), TransformersScorer(home, "cpu"), ["cpu"])
    loop.start()
    try:
        loop.run(until_idle=True)
    finally:
        loop.stop()
    return ids


def npsq(with_question: Sequence[float], without: Sequence[float]) -> list[float]:
    """Return (log P(x|Q,C) − log P(x|C)) / −log P(x|C) for each choice (Cho et al.)."""
    return [(one - other) / -other for one, other in zip(with_question, without, strict=True)]


def compute_witnessed(
    url: str, evaluation_ids: Sequence[int], folder: Path, python: Path
) -> list[dict[str, dict[str, float]]]:
    """Compute npsq_correct and npsq_accuracy only from lm-evaluation-harness's log-likelihoods.

    Returns the values by evaluation and question. python: an interpreter with the harness.
    """
    listings: list[list[tuple[str, int, Prompt]]] = []
    with read_session(get_engine(url)) as session:
        for evaluation_id in evaluation_ids:
            evaluation = find_evaluation(session, evaluation_id)
            questions = select_questions(session, evaluation.benchmark_version, limit=evaluation.questions)
            prompts = prompts_of(session, evaluation, questions)
            listings.append([(item.question.external_id, item.question.answer, item.prompt) for item in prompts])
    lines = [
        json.dumps({"prompt": prompt.text, "continuations": prompt.continuations})
        for listed in listings
        for _, _, prompt in listed
    ]
    command = [python, ROOT / "tests" / "peer" / "harness_scores.py", folder]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    logprobs = iter(json.loads(line)["logprobs"] for line in done.stdout.splitlines())
    per_evaluation = []
    for listed in listings:
        of_evaluation = {}
        for external_id, answer, _ in listed[::2]:  # each question's prompt, then the prompt without the question
            values = npsq(next(logprobs), next(logprobs))
            chosen = values.index(max(values))
            of_evaluation[external_id] = {"npsq_correct": values[answer], "npsq_accuracy": float(chosen == answer)}
        per_evaluation.append(of_evaluation)
    return per_evaluation


def load(url: str, evaluation_id: int) -> dict[str, dict[str, float]]:
    """Return the same values as stored in the registry."""
    document = shuffleboard_json("metrics", evaluation_id, "--per-question", database_url=url)
    assert document["complete"]
    return {
        question: {name: values[name] for name in ("npsq_correct", "npsq_accuracy")}
        for question, values in document["per_question"].items()
    }


def largest_differences(url: str, evaluation_ids: Sequence[int], folder: Path, python: Path = PEER) -> list[float]:
    """Return the largest difference between stored and computed values over all questions, by evaluation."""
    differences = []
    for evaluation_id, theirs in zip(
        evaluation_ids, compute_witnessed(url, evaluation_ids, folder, python), strict=True
    ):
        ours = load(url, evaluation_id)
        assert ours.keys() == theirs.keys()
        differences.append(max(abs(ours[q][name] - value) for q in ours for name, value in theirs[q].items()))
    return differences


def main() -> None:
    questions = int(sys.argv[1]) if len(sys.argv) > 1 else 24
    folder = smollm2(ROOT / "build" / "bench" / "smollm2")
    with tempfile.TemporaryDirectory() as home:
        ids = ask_all(folder, Path(home), questions)
        url = f"sqlite:///{home}/shuffleboard.db"
        for (benchmark, preset), evaluation_id in ids.items():
            shown = shuffleboard_json("evaluations", "show", evaluation_id, database_url=url)
            print(f"{benchmark} {preset}: {shown['state']}, {questions} questions", end="")
            if preset in SCORED:
                [difference] = largest_differences(url, [evaluation_id], folder)
                print(f", NPSQ differs from the harness's by at most {difference:.1e}")
            else:
                print(f", seconds {seconds(url, evaluation_id)}, rules {rules(url, evaluation_id)}")


def seconds(url: str, evaluation_id: int) -> dict[str, float]:
    """Return the seconds that generation and matching took."""
    with get_engine(url).connect() as connection:
        row = connection.exec_driver_sql(
            f"SELECT asking_s, matching_s FROM evaluation_seconds WHERE evaluation_id = {evaluation_id}"
        ).one()
    return {"asking": round(row[0], 1), "matching": None if row[1] is None else round(row[1], 2)}


def rules(url: str, evaluation_id: int) -> dict[str, int]:
    """Return the number of texts in which each rule found the answer."""
    with get_engine(url).connect() as connection:
        rows = connection.exec_driver_sql(
            f"SELECT extraction_rule, prompts FROM extraction_counts WHERE evaluation_id = {evaluation_id}"
        )
        return dict(map(tuple, rows))


if __name__ == "__main__":
    main()
