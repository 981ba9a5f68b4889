"""Import an exported evaluation: check every file against the manifest, and recompute the seal.

Nothing in the folder is trusted: not its paths, not its digests, not its seal. If anything does not match, the error
names the file or the question, and nothing is stored.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, func, insert, select
from sqlalchemy.exc import StatementError
from sqlalchemy.orm import Session, selectinload

from registry import chain, formats
from registry.benchmarks.contract import content_digest
from registry.boards.snapshots import refresh_boards
from registry.db import one_at_a_time, write_session
from registry.digests import sha256_text, specification_digest
from registry.errors import IngestError, SealError
from registry.files.parquet import parquet_rows
from registry.lookups import first_name, model_named
from registry.names import check_name
from registry.predictions.archive_files import EVALUATION, PREDICTIONS, TEXT, TEXT_COLUMNS, plain
from registry.predictions.bulk import insert_predictions, renew_statistics
from registry.prompting.prompts import PromptKeys, question_shape
from registry.prompting.protocols.store import store_protocol
from registry.prompting.variants import VariantSetDefinition, load_variants
from registry.queue.claims import fingerprint_id
from registry.revisions.store import model_identity
from registry.scores.analyses import store_analysis
from registry.scores.asked import as_specified, compute_asked_digest
from registry.scores.pride import write_question_pride
from registry.scores.question_scores import write_question_scores
from registry.sealed import files
from registry.sealed.folder import ASKED, METRIC_COLUMNS, METRICS
from registry.sealed.manifest import LEAF_COLUMNS, Leaf, list_unsealed_values, manifest, question_leaves
from registry.sealed.seal import complete
from registry.sealed.verification import alike
from registry.sealed.withdrawals import withdrawal_digest
from registry.settings import get_settings
from registry.tables import (
    Benchmark,
    BenchmarkVersion,
    Evaluation,
    EvaluationMetric,
    EvaluationQuestion,
    Generation,
    Model,
    ModelRevision,
    Question,
    QuestionOption,
    Shard,
    Variant,
    VariantSet,
    Withdrawal,
    Worker,
)

BATCH: Final = 5000
LISTED: Final = 5


def import_evaluation(engine: Engine, folder: Path) -> tuple[int, bool]:
    """Store an exported evaluation under its own seal; return its number, and whether it is new here.

    Raises IngestError if files differ from the manifest or contradict each other, or if the registry has other results
    for the same specification and replicate; SealError, naming questions, if the seal or the metrics do not match.
    """
    try:
        for name, problem in files.find_changed_files(folder).items():
            files.reject(name, f"{problem}; fetch the folder again")
        document = _read_document(folder)
        with write_session(engine) as session:
            evaluation_id, new = _Import(session, folder, document).run()
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError, StatementError) as error:
        # A forged file can lack any key and contain any value; such errors are not a fault of this code.
        raise IngestError(
            f"{folder.name}: a value is missing or has the wrong type ({str(error).splitlines()[0][:300]}); take the "
            "folder from its source again"
        ) from error
    if new:
        refresh_boards(engine)
    return evaluation_id, new


def _read_document(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = files.read_json(folder, EVALUATION)
    recorded = files.read_json(folder, files.RECORDED)
    for name, content in ((EVALUATION, document), (files.RECORDED, recorded)):
        if not isinstance(content, dict):
            files.reject(name, "is not a JSON object; the folder is incomplete, fetch it again")
    formats.require_known(EVALUATION, "folder", document.get(formats.NUMBER), formats.FOLDER)
    document |= {key: recorded.get(key) for key in ("analyses", "withdrawals")}
    for key, kind in {
        "seal": str,
        "specification": dict,
        "evaluation": dict,
        "model": dict,
        "model_revision": dict,
        "benchmark_version": dict,
        "variant_set": dict,
        "shards": list,
        "analyses": list,
        "withdrawals": list,
    }.items():
        if not isinstance(document.get(key), kind):
            files.reject(EVALUATION, f"has no {key!r} of the right kind; the folder is incomplete, fetch it again")
    facts = document["evaluation"]
    if specification_digest(document["specification"]) != facts.get("specification_digest"):
        files.reject(EVALUATION, "its specification does not match its digest")
    formats.require_known(EVALUATION, "seal", facts.get("seal_version"), formats.SEAL)
    for name in list_unsealed_values(facts):
        number = facts["seal_version"]
        files.reject(EVALUATION, f"has {name!r}, which a seal of format {number} does not cover; fetch it again")
    return document


def _batch_rows(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in lists of at most BATCH."""
    while listed := list(islice(rows, BATCH)):
        yield listed


def _columns(table: Any, row: Mapping[str, Any], *without: str) -> dict[str, Any]:
    """Return a row's values converted for the database, without keys that are not columns of the table."""
    existing = [name for name in table.__table__.columns.keys() if name in row and name not in without]  # noqa: SIM118
    return {name: _plain(table, name, row[name]) for name in existing}


def _plain(table: Any, name: str, value: Any) -> Any:
    # Documents are plain JSON in evaluation.json, but text in Parquet.
    if isinstance(value, (dict, list)):
        return value
    return files.from_file(table, name, value)


class _Import:
    """The import of one exported evaluation, within one transaction."""

    def __init__(self, session: Session, folder: Path, document: dict[str, Any]) -> None:
        self.session = session
        self.folder = folder
        self.document = document
        self.specification: dict[str, Any] = document["specification"]

    def run(self) -> tuple[int, bool]:
        """Import the evaluation; return its number here, and whether it is new."""
        one_at_a_time(self.session, "submit")
        existing = self._find_existing()
        if existing is not None:
            return existing.id, False
        version = self._store_benchmark_version()
        revision = self._store_model_revision()
        protocol = store_protocol(self.session, self.specification["protocol"])
        variant_set = self._store_variant_set()
        # Before the column existed, copies were left out of recorded answers, too, and the folder's metrics reflect
        # that.
        recorded = {"recorded": self.document["evaluation"].get("recorded", False)}
        specified = as_specified(self.specification) | recorded
        facts = _columns(Evaluation, self.document["evaluation"], "sealed_at", "asked_digest", *specified)
        evaluation = Evaluation(
            **facts,
            **specified,
            specification=self.specification,
            asked_digest=compute_asked_digest(self.specification, facts["questions"], version.questions),
            model_revision=revision,
            benchmark_version=version,
            protocol=protocol,
            variant_set=variant_set,
            state="running",
        )
        self.session.add(evaluation)
        self.session.flush()
        ids = self._store_shards(evaluation, version)
        self._store_predictions(evaluation, ids)
        renew_statistics(self.session, evaluation.prompts)
        write_question_scores(self.session, evaluation.id)
        write_question_pride(self.session, evaluation.id)
        leaves = self._check_seal(evaluation)
        sealed_at = datetime.fromisoformat(self.document["evaluation"]["sealed_at"])
        complete(self.session, evaluation, self.document["seal"], leaves, sealed_at)
        self._check_metrics(evaluation)
        self._store_recorded(evaluation)
        return evaluation.id, True

    def _find_existing(self) -> Evaluation | None:
        """Return the evaluation if the registry has it. Raises IngestError if it has other results in its place."""
        digest = self.document["evaluation"]["specification_digest"]
        replicate = self.document["evaluation"]["replicate"]
        existing = self.session.scalar(select(Evaluation).filter_by(specification_digest=digest, replicate=replicate))
        if existing is not None and existing.seal != self.document["seal"]:
            files.reject(
                self.folder.name,
                f"evaluation {existing.id} is replicate {replicate} of the same specification, with other results; a "
                "registry cannot have two with the same number, so import it into one without that evaluation",
            )
        return existing

    # Referenced rows

    def _store_benchmark_version(self) -> BenchmarkVersion:
        wanted = self.specification["benchmark"]
        rows = list(parquet_rows(self.folder / files.QUESTIONS, kept=True))
        parts: dict[bool, list[list[Any]]] = {False: [], True: []}
        for row in rows:
            content = [row[key] for key in ("external_id", "subject", "context", "text", "options", "answer")]
            parts[bool(row["few_shot"])].append(content)
        if content_digest(parts[False], parts[True]) != wanted["content_digest"]:
            files.reject(files.QUESTIONS, "its questions are not those that the specification names")
        one_at_a_time(self.session, "import benchmark")
        name = check_name("benchmark", wanted["name"])
        benchmark = self.session.scalar(select(Benchmark).filter_by(name=name))
        if benchmark is None:
            benchmark = Benchmark(name=name)
            self.session.add(benchmark)
            self.session.flush()
        for version in benchmark.versions:
            if version.content_digest == wanted["content_digest"]:
                return version
        labels = _columns(BenchmarkVersion, self.document["benchmark_version"], "content_digest")
        if labels["version"] in {version.version for version in benchmark.versions}:
            labels["version"] = wanted["content_digest"][:12]
        version = BenchmarkVersion(benchmark=benchmark, content_digest=wanted["content_digest"], **labels)
        self.session.add(version)
        self.session.flush()
        self._store_questions(version.id, rows)
        return version

    def _store_questions(self, version_id: int, rows: list[dict[str, Any]]) -> None:
        ids = self.session.scalars(
            insert(Question).returning(Question.id, sort_by_parameter_order=True),
            [{"benchmark_version_id": version_id, **_columns(Question, row, "options")} for row in rows],
        ).all()
        self.session.execute(
            insert(QuestionOption),
            [
                {"question_id": question_id, "ordinal": ordinal, "text": text}
                for question_id, row in zip(ids, rows, strict=True)
                for ordinal, text in enumerate(row["options"])
            ],
        )

    def _store_model_revision(self) -> ModelRevision:
        wanted = self.specification["model"]
        one_at_a_time(self.session, "models")
        name = check_name("model", wanted["name"])
        model = self._find_model(name)
        if model is None:
            model = Model(**_columns(Model, self.document["model"], "name", "earlier_names"), name=name)
            self.session.add(model)
            self.session.flush()
        for revision in model.revisions:
            if model_identity(revision) == wanted:
                return revision
        facts = _columns(ModelRevision, self.document["model_revision"], "number")
        template = facts.get("chat_template")
        if (None if template is None else sha256_text(template)) != facts.get("chat_template_digest"):
            files.reject(EVALUATION, "the chat template does not match its digest")
        newest = self.session.scalar(select(func.max(ModelRevision.number)).filter_by(model_id=model.id)) or 0
        revision = ModelRevision(**facts, model=model, number=newest + 1, state="ready")
        self.session.add(revision)
        self.session.flush()
        if model_identity(revision) != wanted:
            files.reject(EVALUATION, "the model's digests and settings are not those that the specification names")
        return revision

    def _find_model(self, name: str) -> Model | None:
        """Return the model whose specifications use this name; None if there is none."""
        model = model_named(self.session, name)
        if model is None or first_name(model) == name:
            return model
        if model.name == name:
            files.reject(EVALUATION, f"another model was renamed to {name!r} here; rename that one")
        return None

    def _store_variant_set(self) -> VariantSet:
        wanted, exported = self.specification["variants"], self.document["variant_set"]
        digest = specification_digest(wanted)
        row = self.session.scalar(select(VariantSet).filter_by(digest=digest))
        if row is None:
            if any(exported.get(key) != wanted[key] for key in ("kind", "version", "parameters")):
                files.reject(EVALUATION, "the variants are not those that the specification names")
            content = exported.get("content")
            if (
                not isinstance(content, dict | None)
                or not VariantSetDefinition(wanted["kind"], wanted["parameters"], content).is_of_its_files()
            ):
                files.reject(EVALUATION, "what the variants read from a file does not match its digest")
            row = VariantSet(**_columns(VariantSet, exported), digest=digest)
            self.session.add(row)
            self.session.flush()
        existing = set(self.session.scalars(select(Variant.n_options).filter_by(variant_set_id=row.id)))
        new = [_columns(Variant, item) for item in exported["variants"] if item["n_options"] not in existing]
        if new:
            self.session.execute(insert(Variant), [{"variant_set_id": row.id, **item} for item in new])
        return row

    # Its rows

    def _store_shards(self, evaluation: Evaluation, version: BenchmarkVersion) -> dict[str, int]:
        """Store the shards and their questions; return external question id to question id."""
        shards: dict[int, int] = {}
        for item in self.document["shards"]:
            worker, fingerprint = item["worker"], item["engine_fingerprint"]
            if worker is not None and self.session.get(Worker, worker["id"]) is None:
                # The worker belonged to another registry and was never alive here.
                facts = _columns(Worker, worker)
                facts["stopped_at"] = facts.get("stopped_at") or facts["last_seen"]
                self.session.add(Worker(**facts))
                self.session.flush()
            shard = Shard(
                **_columns(Shard, item),
                evaluation_id=evaluation.id,
                worker_id=None if worker is None else worker["id"],
                engine_fingerprint_id=None if fingerprint is None else fingerprint_id(self.session, fingerprint),
            )
            self.session.add(shard)
            self.session.flush()
            shards[shard.ordinal] = shard.id
        query = select(Question.external_id, Question.id).where(
            Question.benchmark_version_id == version.id, ~Question.few_shot
        )
        ids: dict[str, int] = {row.external_id: row.id for row in self.session.execute(query)}
        rows = []
        for row in parquet_rows(self.folder / ASKED, kept=True):
            if row["few_shot"]:
                continue
            if row["question"] not in ids or row["shard"] not in shards:
                files.reject(ASKED, f"question {row['question']!r} or shard {row['shard']} is not in the folder")
            rows.append(
                {
                    "evaluation_id": evaluation.id,
                    "question_id": ids[row["question"]],
                    "n_variants": row["n_variants"],
                    "shard_id": shards[row["shard"]],
                }
            )
        self.session.execute(insert(EvaluationQuestion), rows)
        with_rows = {row["question_id"] for row in rows}
        return {name: question_id for name, question_id in ids.items() if question_id in with_rows}

    def _store_predictions(self, evaluation: Evaluation, ids: Mapping[str, int]) -> None:
        sources = dict[str | None, int | None]({None: None})
        variant_set = load_variants(evaluation.variant_set)
        of_version = (Question.benchmark_version_id == evaluation.benchmark_version_id, ~Question.few_shot)
        with_options = select(Question).where(*of_version).options(selectinload(Question.options))
        questions = self.session.scalars(with_options.execution_options(yield_per=500))
        shapes = {question.id: question_shape(question) for question in questions}
        keys: dict[int, PromptKeys] = {}
        left_out = () if get_settings().keep_thoughts else ("thought",)
        for listed in _batch_rows(map(plain, parquet_rows(self.folder / PREDICTIONS))):
            predictions, texts = [], []
            for row in listed:
                if row["question"] not in ids:
                    files.reject(PREDICTIONS, f"question {row['question']!r} was not asked")
                seal = row["reused_from_seal"]
                if seal not in sources:
                    sources[seal] = self.session.scalar(select(Evaluation.id).filter_by(seal=seal).limit(1))
                key = {
                    "evaluation_id": evaluation.id,
                    "question_id": ids[row["question"]],
                    "variant": row["variant"],
                }
                if (question_id := key["question_id"]) not in keys:
                    if not variant_set.orders_recorded:
                        keys.clear()  # they can be made again with the same numbers
                    keys[question_id] = PromptKeys(
                        variant_set, shapes[question_id], lists_options=evaluation.lists_options
                    )
                # No seal covers the prompt's number, so the file's number is ignored.
                variant = keys[question_id].recorded(row["variant"], tuple(row["shown"]))
                here = {
                    "reused_from_evaluation_id": sources[seal],
                    "prompt_key": keys[question_id].of(variant),
                }
                predictions.append({name: row[name] for name in LEAF_COLUMNS} | key | here)
                if row[f"{TEXT}text"] is not None:
                    texts.append(key | {name: row[f"{TEXT}{name}"] for name in TEXT_COLUMNS if name not in left_out})
            insert_predictions(self.session, predictions)
            if texts:
                self.session.execute(insert(Generation), texts)

    # Comparing with the folder

    def _check_seal(self, evaluation: Evaluation) -> list[Leaf]:
        leaves = list(question_leaves(self.session, evaluation.id))
        if specification_digest(manifest(self.session, evaluation, leaves)) == self.document["seal"]:
            return leaves
        rows = parquet_rows(self.folder / ASKED, kept=True)
        stated = {(row["question"], row["few_shot"]): row["leaf"] for row in rows}
        changed = [leaf.external_id for leaf in leaves if stated.get((leaf.external_id, leaf.few_shot)) != leaf.leaf]
        listed = ", ".join(changed[:LISTED]) + (f" and {len(changed) - LISTED} more" if len(changed) > LISTED else "")
        what = f"question {listed}" if changed else "what evaluation.json states of the evaluation and its shards"
        raise SealError(
            f"{self.folder.name}: the seal cannot be reproduced: {what} is not as it was sealed; nothing is imported"
        )

    def _check_metrics(self, evaluation: Evaluation) -> None:
        """Raise SealError if a metric in the folder differs from the one computed here under the same definition."""
        names = [name for name in METRIC_COLUMNS if name not in ("scope", "metric", "definition_version")]
        computed = {
            (row.scope, row.metric, row.definition_version): {name: getattr(row, name) for name in names}
            for row in self.session.scalars(select(EvaluationMetric).filter_by(evaluation_id=evaluation.id))
        }
        for row in parquet_rows(self.folder / METRICS):
            here = computed.get((row["scope"], row["metric"], row["definition_version"]))
            if here is not None and not alike({name: row[name] for name in names}, here):
                raise SealError(
                    f"{self.folder.name}: metric {row['metric']} ({row['scope']}) is {row['value']} in the folder, and "
                    f"{here['value']} over its predictions; nothing is imported"
                )

    def _store_recorded(self, evaluation: Evaluation) -> None:
        """Store the analyses and withdrawals that the folder's registry recorded."""
        for item in self.document["analyses"]:
            store_analysis(self.session, evaluation.id, item["kind"], item["parameters"], item["result"])
        for item in self.document["withdrawals"]:
            row = Withdrawal(**_columns(Withdrawal, item), evaluation_id=evaluation.id)
            self.session.add(row)
            self.session.flush()
            chain.append(self.session, "withdrawal", withdrawal_digest(evaluation, row))
