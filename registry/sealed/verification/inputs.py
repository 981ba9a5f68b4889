"""Check that the inputs of an evaluation still match its specification."""

from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from registry.benchmarks.contract import content_digest
from registry.db import Base
from registry.digests import sha256_text, specification_digest
from registry.errors import ShuffleboardError
from registry.prompting.variants import QuestionShape, VariantSetDefinition, load_variants
from registry.revisions.store import model_identity
from registry.scores.asked import compute_asked_digest
from registry.sealed.verification.findings import Findings
from registry.tables import (
    Benchmark,
    BenchmarkVersion,
    EngineFingerprint,
    Evaluation,
    EvaluationQuestion,
    Model,
    ModelRevision,
    Protocol,
    Question,
    QuestionOption,
    Shard,
    Variant,
    VariantSet,
)


def check_references(session: Session, evaluation: Evaluation, findings: Findings) -> bool:
    """Return whether all rows that an evaluation refers to exist, and report the missing ones."""
    pointed: tuple[tuple[str, type[Base], int], ...] = (
        ("model revision", ModelRevision, evaluation.model_revision_id),
        ("benchmark version", BenchmarkVersion, evaluation.benchmark_version_id),
        ("protocol", Protocol, evaluation.protocol_id),
        ("variant set", VariantSet, evaluation.variant_set_id),
    )
    missing = [what for what, table, row_id in pointed if session.get(table, row_id) is None]
    if not missing:
        named: tuple[tuple[str, type[Base], int], ...] = (
            ("model", Model, evaluation.model_revision.model_id),
            ("benchmark", Benchmark, evaluation.benchmark_version.benchmark_id),
        )
        missing = [what for what, table, row_id in named if session.get(table, row_id) is None]
    for what in missing:
        findings.add(f"{what}: what it refers to is missing")
    return not missing


def check_specification(evaluation: Evaluation, findings: Findings) -> bool:
    """Check that files and benchmarks still match the specification's digests; return whether they do."""
    specification, before = evaluation.specification, len(findings.problems)
    if specification_digest(specification) != evaluation.specification_digest:
        findings.add("specification: it does not match the stored digest")
    questions = evaluation.benchmark_version.questions
    if compute_asked_digest(specification, evaluation.questions, questions) != evaluation.asked_digest:
        findings.add("specification: what it asks is not what the stored digest compares it by")
    if evaluation.replayed_from != specification["engine"].get("replayed_from"):
        findings.add("specification: the evaluation that it was replayed from is not the one that it names")
    if model_identity(evaluation.model_revision) != specification["model"]:
        findings.add("model: the revision's digests or settings are not those that the specification names")
    template, digest = evaluation.model_revision.chat_template, evaluation.model_revision.chat_template_digest
    if (None if template is None else sha256_text(template)) != digest:
        findings.add("model: its chat template does not match its digest")
    version = evaluation.benchmark_version
    named = {"name": version.benchmark.name, "content_digest": version.content_digest}
    if named != specification["benchmark"]:
        findings.add("benchmark: it is not the one that the specification names")
    protocol = evaluation.protocol
    definition = specification["protocol"]
    if (protocol.definition, protocol.digest) != (definition, specification_digest(definition)):
        findings.add("protocol: it is not the one that the specification names")
    elif (protocol.name, protocol.shots) != (definition["name"], definition["shots"]):
        findings.add("protocol: its name or number of examples is not that of its definition")
    variants = specification["variants"]
    stored = evaluation.variant_set
    meant = VariantSetDefinition(variants["kind"], variants["parameters"], stored.content)
    if (stored.kind, stored.version, stored.parameters, stored.digest) != (
        variants["kind"],
        variants["version"],
        variants["parameters"],
        specification_digest(variants),
    ):
        findings.add("variants: the set is not the one that the specification names")
    elif not meant.is_of_its_files():
        findings.add("variants: what was read from a file does not match its digest")
    elif stored.name != meant.name or (
        # A later version of a kind may change the texts of inserted options.
        meant.is_current(variants["version"])
        and stored.inserted != {str(ordinal): words for ordinal, words in meant.inserted().items()}
    ):
        findings.add("variants: the name or the inserted texts are not those of the set")
    return len(findings.problems) == before


def check_content(session: Session, evaluation: Evaluation, findings: Findings) -> None:
    """Check the benchmark's content against its digest, and that all questions of the evaluation belong to it."""
    version = evaluation.benchmark_version
    options: dict[int, list[str]] = {}
    of_version = (
        select(QuestionOption.question_id, QuestionOption.text)
        .join(Question, Question.id == QuestionOption.question_id)
        .where(Question.benchmark_version_id == version.id)
        .order_by(QuestionOption.question_id, QuestionOption.ordinal)
    )
    for question_id, option in session.execute(of_version):
        options.setdefault(question_id, []).append(option)
    parts: dict[bool, list[list[Any]]] = {False: [], True: []}
    questions = select(Question).where(Question.benchmark_version_id == version.id).order_by(Question.ordinal)
    for question in session.scalars(questions):
        parts[question.few_shot].append(
            [
                question.external_id,
                question.subject,
                question.context,
                question.text,
                options.get(question.id, []),
                question.answer,
            ]
        )
    counted = (len(parts[False]), len(parts[True]))
    if content_digest(parts[False], parts[True]) != version.content_digest:
        findings.add("benchmark: its questions, options or examples do not match its digest")
    elif (version.questions, version.few_shot_examples) != counted:
        findings.add("benchmark: its stored numbers of questions or examples are wrong")
    foreign = (
        select(Question.external_id)
        .join(EvaluationQuestion, EvaluationQuestion.question_id == Question.id)
        .where(
            EvaluationQuestion.evaluation_id == evaluation.id,
            or_(Question.benchmark_version_id != version.id, Question.few_shot),
        )
    )
    findings.add_questions(session.scalars(foreign), "does not belong to the benchmark version that was evaluated")


def check_variants(session: Session, evaluation: Evaluation, findings: Findings) -> None:
    """Compare the stored names of variants with the names that their kind generates, for each number of options."""
    stored = evaluation.variant_set
    definition = load_variants(stored)
    if stored.kind == "imported" or not definition.is_current(stored.version):
        return
    query = (
        select(Question.n_options, Question.external_id, Question.answer)
        .join(EvaluationQuestion, EvaluationQuestion.question_id == Question.id)
        .where(EvaluationQuestion.evaluation_id == evaluation.id)
        .order_by(Question.ordinal)
    )
    one_of_each = {row.n_options: row for row in reversed(session.execute(query).all())}
    names: dict[int, dict[int, str]] = {}
    for n_options, ordinal, name in session.execute(
        select(Variant.n_options, Variant.ordinal, Variant.name).where(Variant.variant_set_id == stored.id)
    ):
        names.setdefault(n_options, {})[ordinal] = name
    for n_options, row in sorted(one_of_each.items()):
        try:
            listed = definition.names(QuestionShape(row.external_id, n_options, row.answer))
        except ShuffleboardError:
            continue  # the kind has no variants for so few options
        if names.get(n_options) != listed:
            findings.add(f"variants: the names for {n_options} options are not those of {stored.name}")


def check_fingerprints(session: Session, evaluation: Evaluation, findings: Findings) -> None:
    """Check engine fingerprints against their digests."""
    query = (
        select(EngineFingerprint.digest, EngineFingerprint.document)
        .where(
            EngineFingerprint.id.in_(select(Shard.engine_fingerprint_id).where(Shard.evaluation_id == evaluation.id))
        )
        .order_by(EngineFingerprint.id)
    )
    for digest, document in session.execute(query):
        if specification_digest(document) != digest:
            findings.add(f"engine: fingerprint {digest[:12]}… does not match its digest")
