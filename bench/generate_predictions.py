"""Fills a PostgreSQL database with millions of predictions, through the registry's own functions.

A model answers every benchmark under `cyclic`, the small ones also under `full`, and every second model all of them
under both. Its answers are generated from a seed, with the columns that scoring under `symbols` fills:
log-probabilities, probabilities, digests and the scalars that metrics average. Two models are made up for each
benchmark and variant set; the others repeat one of them under another number, since PostgreSQL stores every row in
full.
"""

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select, text
from sqlalchemy.orm import Session, selectinload

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.store import import_board, import_suite
from registry.digests import sha256_text, specification_digest
from registry.predictions.bulk import insert_predictions
from registry.predictions.prompts import prompts_of
from registry.prompting.protocols.store import protocol_definition, store_protocol
from registry.prompting.variants import QuestionShape, parse_variants
from registry.queue.claims import fingerprint_id
from registry.queue.evaluations import build_specification, store_variant_set, store_variants
from registry.revisions.store import ModelFiles, RevisionRequest, add_revision
from registry.scores.asked import compute_asked_digest
from registry.tables import BenchmarkVersion, Evaluation, ModelRevision, Question, Shard
from tests.support.population import add_benchmark, question

Rows = list[dict[str, Any]]

PROFILES: Final = 2
BATCH: Final = 20_000
"""Number of rows passed to COPY at once, as in the importer."""
STEM: Final = (
    "A stem of the length that questions of this kind have, with its numbers, names and a sentence before it. "
)


@dataclass(frozen=True)
class Kind:
    """One benchmark under one variant set. every: one of this many models answers it."""

    benchmark: str
    questions: int
    options: int
    subjects: int
    variants: str
    every: int = 1

    @property
    def orders(self) -> list[tuple[int, ...]]:
        """Return the order of each variant."""
        definition = parse_variants(self.variants)
        return [variant.order for variant in definition.variants(QuestionShape("q", self.options, 0))]

    @property
    def predictions(self) -> int:
        """Return the number of predictions of one evaluation."""
        return self.questions * len(self.orders)


def kinds(share: float = 1.0) -> tuple[Kind, ...]:
    """Return benchmarks with the sizes of MMLU, ARC, CommonsenseQA and OpenBookQA, or a share of these sizes."""

    def make_kinds(benchmark: str, questions: int, options: int, subjects: int, every: int) -> Iterator[Kind]:
        for variants, one_in in (("cyclic", 1), ("full", every)):
            yield Kind(benchmark, max(4, round(questions * share)), options, subjects, variants, one_in)

    return (
        *make_kinds("mmlu", 14_042, 4, 57, 2),
        *make_kinds("arc", 1_172, 4, 1, 1),
        *make_kinds("csqa", 1_221, 5, 1, 2),
        *make_kinds("openbookqa", 500, 4, 1, 1),
    )


@dataclass(frozen=True)
class Asked:
    """The questions of one benchmark version: database id and right option, both of shape (questions,)."""

    version_id: int
    question_ids: NDArray[np.int64]
    answers: NDArray[np.int64]


class Source:
    """Generates evaluations with their predictions, model after model. Its rows take a few hundred MB."""

    def __init__(self, session: Session, folder: Path, share: float = 1.0) -> None:
        self.kinds = self.kinds_of(share)
        sizes = {kind.benchmark: kind for kind in self.kinds}
        self.asked = {name: _benchmark(session, folder, kind) for name, kind in sizes.items()}
        import_suite(
            session,
            SuiteDefinition.model_validate(
                {"name": "bench", "variants": ["cyclic"], "tasks": [{"benchmark": name} for name in list(sizes)[1:3]]}
            ),
        )
        columns = ("accuracy@cyclic", "worst_accuracy@cyclic", "fluctuation_rate@cyclic")
        import_board(session, BoardDefinition(name="bench", suite="bench", columns=columns))

    def kinds_of(self, share: float) -> tuple[Kind, ...]:
        """Return the benchmarks and variants that the models answer."""
        return kinds(share)

    def plan(self) -> Iterator[tuple[int, Kind]]:
        """Yield pairs of a model's number and the kind that it answers, without end."""
        number = 0
        while True:
            yield from ((number, kind) for kind in self.kinds if number % kind.every == 0)
            number += 1

    def rows(self, number: int, kind: Kind, evaluation_id: int) -> Rows:
        """Return the predictions of an evaluation. The next call reuses the list and its rows, so use them before."""
        rows = self._make_rows(profile_of(number, kind), kind)
        for row in rows:
            row["evaluation_id"] = evaluation_id
        return rows

    @cache  # noqa: B019 - there is one source, as long as the process
    def _make_rows(self, profile: int, kind: Kind) -> Rows:
        seed = int(sha256_text(f"{kind.benchmark} {kind.variants} {profile}")[:12], 16)
        rows = make_rows(self.asked[kind.benchmark], kind.orders, np.random.default_rng(seed), 1.0 + profile)
        gc.freeze()  # otherwise every collection visits a million rows that stay
        return rows

    def add(self, session: Session, number: int, kind: Kind) -> int:
        """Add an evaluation with its shard and questions, ready for its predictions; return its id."""
        revision = _revision(session, number)
        version = session.get_one(BenchmarkVersion, self.asked[kind.benchmark].version_id)
        definition, protocol = parse_variants(kind.variants), protocol_definition("symbols")
        variant_set = store_variant_set(session, definition)
        names = {variant.ordinal: variant.name for variant in definition.variants(QuestionShape("q", kind.options, 0))}
        store_variants(session, variant_set, {kind.options: names})
        filter_json = {"limit": None, "subjects": None}
        document = build_specification(revision, version, protocol, definition, {"name": "made up"}, filter_json)
        evaluation = Evaluation(
            specification=document,
            specification_digest=specification_digest(document),
            asked_digest=compute_asked_digest(document, kind.questions, version.questions),
            model_revision=revision,
            benchmark_version=version,
            protocol=store_protocol(session, protocol),
            variant_set=variant_set,
            questions=kind.questions,
            prompts=kind.predictions,
            state="running",
        )
        session.add(evaluation)
        session.flush()
        shard = Shard(
            evaluation_id=evaluation.id,
            ordinal=0,
            queue="cpu",
            state="done",
            prompts=kind.predictions,
            engine_fingerprint_id=fingerprint_id(session, {"engine": "made up"}),
        )
        session.add(shard)
        session.flush()
        session.execute(
            text(
                "INSERT INTO evaluation_question (evaluation_id, question_id, n_variants, shard_id) "
                "SELECT :evaluation, id, :variants, :shard FROM question WHERE benchmark_version_id = :version"
            ),
            {
                "evaluation": evaluation.id,
                "variants": len(kind.orders),
                "shard": shard.id,
                "version": version.id,
            },
        )
        return evaluation.id


class Scored(Source):
    """Generates predictions that scoring computes from the log-probabilities, with the digests of their prompts."""

    def __init__(self, session: Session, folder: Path, share: float = 1.0) -> None:
        super().__init__(session, folder, share)
        self._scored: set[tuple[int, Kind]] = set()

    def add(self, session: Session, number: int, kind: Kind) -> int:
        """Add an evaluation as the base class does, keeping the session for `rows`."""
        self._session = session
        return super().add(session, number, kind)

    def rows(self, number: int, kind: Kind, evaluation_id: int) -> Rows:
        """Return the predictions of the evaluation that was added last."""
        rows = super().rows(number, kind, evaluation_id)
        if (profile_of(number, kind), kind) not in self._scored:
            by_prompt = {(row["question_id"], row["variant"]): row for row in rows}
            evaluation = self._session.get_one(Evaluation, evaluation_id)
            query = select(Question).where(Question.benchmark_version_id == evaluation.benchmark_version_id)
            questions = self._session.scalars(query.options(selectinload(Question.options))).all()
            for item in prompts_of(self._session, evaluation, list(questions)):
                row = by_prompt[item.question_id, item.variant.ordinal]
                scored = item.row(row["label_logprobs"])
                row.clear()
                row.update(scored)
            self._scored.add((profile_of(number, kind), kind))
            self._session.expire_all()
        return rows


def profile_of(number: int, kind: Kind) -> int:
    """Return the number of the made-up model that a model repeats, for a kind."""
    return number % (PROFILES * kind.every) // kind.every


def store(session: Session, rows: Rows) -> None:
    """Store predictions in batches, as the importer does."""
    for start in range(0, len(rows), BATCH):
        insert_predictions(session, rows[start : start + BATCH])


def _benchmark(session: Session, folder: Path, kind: Kind) -> Asked:
    lines = [
        question(
            number,
            subject=f"subject {number * kind.subjects // kind.questions}",
            options=kind.options,
            question=f"{STEM}{kind.benchmark} {number}?",
        )
        for number in range(kind.questions)
    ]
    version = add_benchmark(session, folder, lines, kind.benchmark)
    query = select(Question.id, Question.answer).where(Question.benchmark_version_id == version.id)
    rows = np.array(session.execute(query.order_by(Question.ordinal)).all(), dtype=np.int64)
    return Asked(version.id, rows[:, 0], rows[:, 1])


def _revision(session: Session, number: int) -> ModelRevision:
    name = f"model-{number:04}"
    files = ModelFiles(sha256_text(name), sha256_text("tokenizer"), None, "0" * 40)
    return add_revision(session, name, RevisionRequest("huggingface", f"made-up/{name}"), files=files)[0]


def make_rows(asked: Asked, orders: Sequence[Sequence[int]], rng: np.random.Generator, skill: float) -> Rows:
    """Return a row for every order of every question, with columns of `prediction` by name, except the evaluation.

    The model prefers the right option by `skill` (a difference of logits) and some positions slightly.
    """
    by_order = np.asarray(orders, dtype=np.int64)
    n, (variants, options) = len(asked.answers), by_order.shape
    liking = rng.normal(size=(n, options))
    liking[np.arange(n), asked.answers] += skill
    logits = (
        liking[:, by_order] + rng.normal(scale=0.4, size=options) + rng.normal(scale=0.2, size=(n, *by_order.shape))
    )
    logs = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
    mass = rng.beta(20, 1, size=(n, variants))
    probabilities = np.exp(logs)
    logprobs = logs + np.log(mass)[:, :, None]
    positions = np.argsort(by_order, axis=1)
    right = positions[:, asked.answers].T
    chosen = logprobs.argmax(axis=2)
    option = by_order[np.arange(variants), chosen]
    lengths = rng.integers(4, 60, size=(n, options))
    normalized = (logprobs / lengths[:, by_order]).argmax(axis=2) == right
    answer = np.take_along_axis(probabilities, right[:, :, None], axis=2)[:, :, 0]
    brier = 1 - 2 * answer + (probabilities**2).sum(axis=2)
    entropy = -(probabilities * logs).sum(axis=2) / np.log(options)
    digests = rng.bytes(32 * n * variants).hex()
    columns = {
        "question_id": np.repeat(asked.question_ids, variants),
        "variant": np.tile(np.arange(variants), n),
        "prompt_key": np.tile(np.arange(variants), n),
        "chosen_position": chosen.ravel(),
        "chosen_option": option.ravel(),
        "correct": (chosen == right).ravel(),
        "label_logprobs": logprobs.reshape(-1, options),
        "label_probabilities": probabilities.reshape(-1, options),
        "label_mass": mass.ravel(),
        "answer_probability": answer.ravel(),
        "brier_score": np.clip(brier, 0, 2).ravel(),
        "entropy": np.clip(entropy, 0, 1).ravel(),
        "accuracy_normalized": normalized.ravel(),
    }
    shown = [list(order) for order in orders] * n
    unchanged = [list(order) == sorted(order) for order in orders] * n
    prompts = [digests[start : start + 64] for start in range(0, len(digests), 64)]
    names = ("shown", "unchanged", "prompt_digest", "question_shown", "own_options", "tied", *columns)
    always = (True, True, False)
    return [
        dict(zip(names, (*first, *always, *rest), strict=True))
        for *first, rest in zip(
            shown, unchanged, prompts, zip(*(values.tolist() for values in columns.values()), strict=True), strict=True
        )
    ]
