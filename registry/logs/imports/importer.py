"""Import of recorded outputs as a sealed evaluation: the whole file is checked before a transaction is opened.

A file of more than KEPT lines is read twice, once to check it and once to store it: the rows of a million prompts do
not fit in memory, but their keys do. It must not change in between.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, insert, select
from sqlalchemy.orm import Session

from registry.benchmarks.lines import Place, read_lines, shorten
from registry.boards.snapshots import refresh_boards
from registry.code_identity import code_identity
from registry.db import read_session, write_session
from registry.digests import sha256_file, specification_digest
from registry.errors import IngestError, NotFoundError, QueueError, UsageError, VariantError
from registry.files.documents import as_written
from registry.logs.beside import overall_beside
from registry.logs.documents import Log
from registry.logs.format import CAT, OUTPUTS
from registry.logs.formats import FORMATS
from registry.logs.formats.cat import parse_selection, read_consistency
from registry.logs.formats.outputs import read_contract
from registry.logs.formats.table import Table, is_table_of_columns, read_table
from registry.logs.imports.agreement import SCORE_TOLERANCE, Agreement, order_by_key, settle_labels
from registry.logs.imports.counterparts import with_counterparts
from registry.logs.imports.repeats import Prompts
from registry.logs.imports.stated import Comparison, Difference
from registry.logs.labels import CONVENTIONS
from registry.logs.recognition import form_of_line, log_file, read_log
from registry.logs.record import KnownQuestion, Recorded, check_variant, optional_text
from registry.lookups import find_of_hub, find_revision, find_version, is_hub_name, model_named
from registry.names import check_name, plural
from registry.predictions.bulk import insert_predictions, insert_rows, renew_statistics
from registry.predictions.rows import prediction_row
from registry.predictions.texts import build_imported_text
from registry.prompting.prompts import PromptKeys
from registry.prompting.protocols.presets import RECORDED, SYMBOLS
from registry.prompting.protocols.store import find_definition, store_protocol
from registry.prompting.thoughts import OPENED_SHARE, closes_only, load_markers
from registry.prompting.variants import (
    QuestionShape,
    VariantSetDefinition,
    VariantShown,
    number_inserted,
    parse_variants,
)
from registry.queue.claims import fingerprint_id
from registry.queue.evaluations import build_specification, store_variant_set, store_variants
from registry.revisions.store import RevisionRequest, add_revision
from registry.scores.asked import as_specified, compute_asked_digest
from registry.scores.question_scores import write_question_scores
from registry.sealed.seal import seal_together
from registry.tables import Evaluation, EvaluationQuestion, Generation, Question, QuestionOption, Shard

BATCH: Final = 20_000
KEPT: Final = 50_000
"""The most lines that are kept in memory (25 MB, or 80 with log-probabilities), so that small files are read once."""
READER_VERSION: Final = 1
COLUMNS: Final = "columns"
"""The format of a table of letters."""
_AGAIN: Final = "take the file from the program that wrote it again, or give its answers as JSON Lines"

Reader = Callable[[], Iterator[Recorded]]
Report = Callable[[str, int, int | None], None]
"""Callback for progress: the current step, the lines done, and their total (None while it is unknown)."""


@dataclass(frozen=True)
class ImportRequest:
    """A request to import the outputs in `path` of a model on a benchmark, under a kind of variants.

    protocol: of the prompts; None: `symbols` for our own format and for log-probabilities of other programs, else
    `recorded`.
    select: variant types of IBM/cat's format. column: the model's column in a table of letters. ignore_stated: import
    answers although they contradict the scores that the log states.
    """

    path: Path
    model: str
    benchmark: str
    variants: str | VariantSetDefinition
    protocol: str | None = None
    shots: int = 0
    select: str | None = None
    column: str | None = None
    ignore_stated: bool = False
    requester: str | None = None


@dataclass
class Checked:
    """The results of the first reading of a file.

    prompts: the prompts in it. inserted: names of inserted options. without_question: log-probabilities of variants
    that leave the question out, by question id and the variant's other changes. scored: whether any line has
    probabilities.
    agreement: for each convention of reading labels, how well it reproduces the log's scores and key; convention: the
    index of the chosen one.
    differences: scores in the file that differ from ours for a known reason.
    """

    prompts: Prompts = field(default_factory=Prompts)
    inserted: set[str] = field(default_factory=set)
    without_question: dict[tuple[int, VariantShown], tuple[float, ...]] = field(default_factory=dict)
    lines: int = 0
    scored: bool = False
    agreement: Agreement = field(default_factory=lambda: Agreement("the file"))
    convention: int = 0
    differences: list[Difference] = field(default_factory=list)
    texts: int = 0
    closing: int = 0
    """The number of texts with the end of a thought and no beginning."""
    kept: list[Recorded] | None = field(default_factory=list)
    """All lines; None if there are more than KEPT."""

    @property
    def opened(self) -> bool:
        """Return whether the template began the thoughts, so that a thought without an end marker was cut off."""
        return self.closing >= max(1.0, OPENED_SHARE * self.texts)


def import_outputs(
    engine: Engine,
    request: ImportRequest,
    report: Report | None = None,
    compared: Callable[[Comparison], None] | None = None,
) -> int:
    """Import a file and return the id of its evaluation; importing it again makes a new replicate.

    Every expected prompt must be in the file. compared: called, once all is stored, with the scores of another
    program's log and the computed ones. Raises IngestError naming file, line, value and remedy, or the first missing
    prompt; nothing is stored then.
    """
    with as_written(request.path.name, _AGAIN):
        file = log_file(request.path)
    if file is not None:
        request = replace(request, path=file)
    tell = report or (lambda _what, _done, _total: None)
    definition = parse_variants(request.variants) if isinstance(request.variants, str) else request.variants
    with read_session(engine) as session:
        _require_ready(session, request.model)
        questions = _load_questions(session, find_version(session, request.benchmark).id)
    with as_written(request.path.name, _AGAIN):
        if file is None:
            log = None
            format_, reader = _recognise_reader(request, definition, questions)
        else:
            log = _read_whole_log(request, questions)
            format_, reader = log.format, lambda: iter(log.recorded)
        digest = sha256_file(request.path)
        checked, reader = _check_first(reader, definition, request.path.name, tell)
        overall = overall_beside(request.path, format_) if log is None else log.overall
        _choose_convention(checked, overall, ignore=request.ignore_stated)
        comparison = _build_comparison(log, overall, checked, request)
    definition = _name_inserted(definition, checked.inserted)
    answers = _Answers(definition, questions, checked, request.protocol or _assume_protocol(format_, checked))
    answers.require_whole(request.path.name)
    fingerprint = _build_fingerprint(format_, digest)
    if request.select or request.column:
        fingerprint |= {"select": request.select, "column": request.column}
    if log is not None:
        fingerprint |= {"log": log.about}
    if comparison is not None:
        fingerprint |= {"stated": comparison.fingerprint()}
    with write_session(engine) as session:
        again = checked.prompts.once(reader) if checked.kept is None else partial(iter, checked.kept)
        evaluation = _store(session, request, answers, settle_labels(again, checked.convention), fingerprint, tell)
        _require_unchanged(request.path, digest)
        tell("sealing", 0, 1)
        evaluation_id = evaluation.id
        seal_together(session, [evaluation_id], lambda done: tell("sealing", done, 1))
    refresh_boards(engine)
    if comparison is not None and compared is not None:
        compared(comparison)
    return evaluation_id


def import_columns(
    engine: Engine,
    path: Path,
    *,
    benchmark: str,
    variants: str = "original",
    protocol: str | None = None,
    shots: int = 0,
    columns: Sequence[str] = (),
    report: Report | None = None,
) -> dict[str, int]:
    """Import a table of letters, each column as the answers of one model; if one column fails, none is imported.

    A model that is not registered is registered as external; a column OWNER/NAME becomes the model NAME. columns: the
    columns to import; empty: all. protocol: None is `recorded`. Returns the evaluation of each model, in the order of
    the columns. Raises as `import_outputs` does.
    """
    tell = report or (lambda _what, _done, _total: None)
    definition = parse_variants(variants)
    with read_session(engine) as session:
        questions = _load_questions(session, find_version(session, benchmark).id)
    digest = sha256_file(path)
    with as_written(path.name, _AGAIN):
        table = read_table(path, questions, columns)
    columns = list(table.labels)
    with read_session(engine) as session:
        models = _name_models(session, columns, path.name)
    # All columns have the same prompts.
    checked, _ = _check_first(lambda: table.recorded(columns[0]), definition, path.name, tell)
    conventions = {column: _choose_column_convention(table, column, path.name) for column in columns}
    answers = _Answers(definition, questions, checked, protocol or _assume_protocol(COLUMNS, checked))
    answers.require_whole(path.name)
    total = checked.lines * len(models)
    with write_session(engine) as session:
        evaluations = []
        for number, (column, model) in enumerate(zip(columns, models, strict=True)):
            if model_named(session, model) is None:
                add_revision(session, model, RevisionRequest("external"))
            _require_ready(session, model)
            request = ImportRequest(path, model, benchmark, variants, protocol, shots, column=column)
            before = number * checked.lines
            evaluations.append(
                _store(
                    session,
                    request,
                    answers,
                    settle_labels(checked.prompts.once(partial(table.recorded, column)), conventions[column]),
                    _build_fingerprint(COLUMNS, digest) | {"select": None, "column": column},
                    lambda what, done, _, before=before: tell(what, before + done, total),  # type: ignore[misc]
                )
            )
        _require_unchanged(path, digest)
        tell("sealing", 0, len(models))
        ids = [evaluation.id for evaluation in evaluations]
        seal_together(session, ids, lambda done: tell("sealing", done, len(models)))
    refresh_boards(engine)
    return dict(zip(models, ids, strict=True))


def _assume_protocol(format_: str, checked: Checked) -> str:
    """Return the protocol to assume for answers whose prompts are not recorded.

    Letters and texts may come from any prompt, log-probabilities of labels come from a prompt like that of `symbols`.
    """
    if format_ == OUTPUTS or (checked.scored and not checked.texts):
        return str(SYMBOLS["format"])
    return str(RECORDED["format"])


def _name_models(session: Session, columns: Sequence[str], file: str) -> list[str]:
    """Return the model name for each column.

    A column OWNER/NAME is the registered model of the hub, else NAME, or OWNER-NAME if another column has that name.
    Raises IngestError for a heading that cannot be a name, and for two columns of one model.
    """
    names: list[str] = []
    for column in columns:
        name = column
        if is_hub_name(column):
            try:
                name = find_of_hub(session, column).model.name
            except NotFoundError:
                owner, _, name = column.partition("/")
                if name.lower() in {other.lower() for other in (*names, *columns)}:
                    name = f"{owner}-{name}"
        try:
            known = model_named(session, check_name("model", name))
        except UsageError as error:
            raise IngestError(f"{file} line 1: column {column!r}: {error}") from None
        name = name if known is None else known.name
        if name in names:
            raise IngestError(f"{file} line 1: columns {columns[names.index(name)]!r} and {column!r} are both {name}")
        names.append(name)
    return names


def _require_ready(session: Session, model: str) -> None:
    revision = find_revision(session, model)
    if revision.state != "ready":
        raise QueueError(f"model {model} is not ready: {revision.error or 'its files are not hashed yet'}")


def _build_fingerprint(format_: str, digest: str) -> dict[str, object]:
    return {
        "engine": "replay",
        "code": code_identity(),
        "format": format_,
        "reader_version": READER_VERSION,
        "file_digest": digest,
    }


def _require_unchanged(path: Path, digest: str) -> None:
    if sha256_file(path) != digest:
        raise IngestError(f"{path.name}: changed while it was being imported; import it again")


def _store(
    session: Session,
    request: ImportRequest,
    answers: "_Answers",
    reader: Reader,
    fingerprint: dict[str, object],
    tell: Report,
) -> Evaluation:
    """Store one model's answers and their question scores, without sealing the evaluation."""
    evaluation = _store_evaluation(session, request, answers, fingerprint)
    _store_rows(session, evaluation, reader, answers, tell)
    renew_statistics(session, evaluation.prompts)
    write_question_scores(session, evaluation.id)
    return evaluation


def _load_questions(session: Session, version_id: int) -> dict[str, KnownQuestion]:
    of_version = (Question.benchmark_version_id == version_id, ~Question.few_shot)
    texts: dict[int, list[str]] = {}
    options = (
        select(QuestionOption.question_id, QuestionOption.text)
        .join(Question, Question.id == QuestionOption.question_id)
        .where(*of_version)
        .order_by(QuestionOption.question_id, QuestionOption.ordinal)
    )
    for question_id, text in session.execute(options):
        texts.setdefault(question_id, []).append(text)
    query = select(
        Question.id, Question.external_id, Question.ordinal, Question.text, Question.answer, Question.context
    ).where(*of_version)
    return {
        row.external_id: KnownQuestion(
            row.id, row.external_id, row.ordinal, row.text, tuple(texts[row.id]), row.answer, row.context
        )
        for row in session.execute(query.order_by(Question.ordinal))
    }


def _recognise_reader(
    request: ImportRequest, definition: VariantSetDefinition, questions: Mapping[str, KnownQuestion]
) -> tuple[str, Reader]:
    """Recognise a file's format; return its name and a function that reads the file from its start."""
    path = request.path
    if path.is_file() and is_table_of_columns(path):
        table = read_table(path, questions, () if request.column is None else (request.column,))
        if len(table.labels) > 1:
            listed = ", ".join(table.labels)
            raise UsageError(
                f"{path.name} has a column for each of {shorten(listed, 400)}; choose one with --column, or leave out "
                "--model to import them all"
            )
        return COLUMNS, partial(table.recorded, next(iter(table.labels)))
    first = next(read_lines(path), None)
    if first is None:
        raise IngestError(f"{path.name}: contains no outputs; give one line per prompt")
    form = form_of_line(first[1])
    selection = parse_selection(request.select)
    if form == CAT:
        by_content = definition.kind == "divergent"
        return CAT, lambda: read_consistency(path, questions, selection, by_content=by_content)
    if request.select or request.column:
        raise UsageError("--select is for IBM/cat's layout and --column for tables; this file is neither")
    read_lines_of = None if form is None else FORMATS[form].read_lines
    if form is None or read_lines_of is None:
        form, read_lines_of = OUTPUTS, read_contract
    return form, partial(read_lines_of, path, questions)


def _read_whole_log(request: ImportRequest, questions: Mapping[str, KnownQuestion]) -> Log:
    if request.select or request.column:
        raise UsageError("--select is for IBM/cat's layout and --column for tables; this file is neither")
    return read_log(request.path, questions)


def _build_comparison(
    log: Log | None, overall: float | None, checked: Checked, request: ImportRequest
) -> Comparison | None:
    """Compare the log's scores with ours; return None if the file states none."""
    agreement, number = checked.agreement, checked.convention
    if log is None and not agreement.compared:
        return None
    remarks = [] if log is None else list(log.remarks)
    if agreement.repeated:
        remarks.append(f"{plural(agreement.repeated, 'answer')} of prompts that are there again count once")
    if log is not None and log.shots is not None and log.shots != request.shots:
        remarks.append(f"its prompts contain up to {log.shots} examples, but --shots says {request.shots}")
    return Comparison(
        "score" if log is None else log.metric,
        (agreement.stated / agreement.compared if overall is None else overall) if log is None else log.stated,
        agreement.share_right(number),
        checked.lines,
        agreement.compared,
        tuple(checked.differences),
        tuple(remarks),
        CONVENTIONS[number].describe() if agreement.labels else None,
        tuple(agreement.contradictions[number]),
        agreement.contradicted[number],
        None if overall is None else agreement.mean_over(number, overall),
    )


def _compare_answer(recorded: Recorded, checked: Checked) -> None:
    """Compare an answer with its score and its key, and record a score that differs by a known rule of the format."""
    checked.agreement.add(recorded)
    if recorded.excuse is None or recorded.stated is None:
        return
    position = recorded.shown_position
    correct = position is not None and recorded.order[position] == recorded.question.answer
    if abs(recorded.stated - correct) > SCORE_TOLERANCE:
        checked.differences.append(
            Difference(
                recorded.question.external_id, recorded.variant, recorded.stated, float(correct), recorded.excuse
            )
        )


def _check_first(reader: Reader, definition: VariantSetDefinition, file: str, tell: Report) -> tuple[Checked, Reader]:
    """Read a file once; return the results, and a reader with counterparts and with equal options as keyed."""
    complete_reader = with_counterparts(lambda: map(order_by_key, reader()), definition)
    return _check_lines(complete_reader, definition, file, tell), complete_reader


def _choose_convention(checked: Checked, overall: float | None, *, ignore: bool) -> None:
    """Choose the convention that reproduces the log's scores. Raises ContradictionError if none does."""
    checked.convention = checked.agreement.choose(overall, ignore=ignore)


def _choose_column_convention(table: Table, model: str, file: str) -> int:
    agreement, prompts = Agreement(f"{file} column {model}"), Prompts()
    for recorded in table.recorded(model):
        if prompts.add(recorded):
            agreement.add(recorded)
    return agreement.choose(None, ignore=False)


def _check_lines(reader: Reader, definition: VariantSetDefinition, file: str, tell: Report) -> Checked:
    """Read the whole file once; raise IngestError for the first invalid line."""
    checked = Checked(agreement=Agreement(file))
    known = number_inserted(definition.kind)
    expected: dict[int, dict[int, VariantShown]] = {}
    for recorded in reader():
        question = recorded.question
        check_variant(recorded.place, recorded.variant)
        optional_text(recorded.place, recorded.text)
        if not checked.prompts.add(recorded):
            checked.agreement.add_repeat(recorded)
            continue
        _compare_answer(recorded, checked)
        names = {item for item in recorded.order if isinstance(item, str)}
        checked.inserted |= names
        if definition.kind != "imported":
            for name in names - known.keys():
                allowed = ", ".join(known) or "none"
                recorded.place.reject(
                    f"order: {name!r} is not an inserted option of {definition.kind} (it has: {allowed}); use "
                    "--variants "
                    "imported for variants of another kind"
                )
            if question.question_id not in expected:
                expected[question.question_id] = _expect_variants(recorded.place, definition, question)
            variant = _check_variant(recorded, definition, expected[question.question_id], known)
            if not variant.question_shown and recorded.logprobs is not None:
                checked.without_question[question.question_id, variant.with_question()] = recorded.logprobs
        checked.lines += 1
        if recorded.text is not None:
            checked.texts += 1
            checked.closing += closes_only(recorded.text, load_markers())
        checked.scored |= recorded.logprobs is not None or recorded.weights is not None
        if checked.kept is not None:
            checked.kept.append(recorded)
            if checked.lines > KEPT:
                checked.kept = None
        if checked.lines % BATCH == 0:
            tell("checking", checked.lines, None)
    if not checked.lines:
        raise IngestError("the file contains no outputs for the selection; nothing is imported")
    return checked


def _expect_variants(
    place: Place, definition: VariantSetDefinition, question: KnownQuestion
) -> dict[int, VariantShown]:
    try:
        return {variant.ordinal: variant for variant in _list_variants(definition, question)}
    except VariantError as error:
        place.reject(str(error))


def _list_variants(definition: VariantSetDefinition, question: KnownQuestion) -> list[VariantShown]:
    return definition.variants(_build_shape(question))


def _build_shape(question: KnownQuestion) -> QuestionShape:
    return QuestionShape(question.external_id, len(question.options), question.answer)


def _check_variant(
    recorded: Recorded,
    definition: VariantSetDefinition,
    expected: Mapping[int, VariantShown],
    known: Mapping[str, int],
) -> VariantShown:
    """Return the variant of a line; reject an unknown variant, or an order other than the kind's fixed order."""
    variant = expected.get(recorded.variant)
    if variant is None:
        recorded.place.reject(
            f"variant {recorded.variant}: {definition.name} of {len(recorded.question.options)} options "
            f"has the variants {min(expected)} to {max(expected)}; use --variants imported for others"
        )
    order = tuple(known[item] if isinstance(item, str) else item for item in recorded.order)
    same_options = sorted(order) == sorted(variant.order)
    drawn = definition.orders_recorded and "shuffle" in variant.name
    if not same_options or (not drawn and order != variant.order):
        recorded.place.reject(
            f"order {list(recorded.order)} is not variant {recorded.variant} of {definition.name}, which shows "
            f"{list(variant.order)}; use --variants imported for other orders"
        )
    return variant if variant.order == order else replace(variant, order=order)


def _name_inserted(definition: VariantSetDefinition, names: set[str]) -> VariantSetDefinition:
    if definition.kind != "imported":
        return definition
    return replace(definition, parameters={**definition.parameters, "inserted": "+".join(sorted(names))})


class _Answers:
    """The checked variants of the questions to be stored; all columns of a table share them."""

    def __init__(
        self,
        definition: VariantSetDefinition,
        questions: Mapping[str, KnownQuestion],
        checked: Checked,
        protocol: str,
    ) -> None:
        self.definition, self.questions, self.checked, self.protocol = definition, questions, checked, protocol
        self.expected = {
            question.question_id: _expect_ordinals(definition, question, checked) for question in questions.values()
        }
        self._keys: dict[int, PromptKeys] = {}

    def keys(self, question: KnownQuestion, *, lists_options: bool) -> PromptKeys:
        """Return the variants of a question with the keys of their prompts."""
        if (keys := self._keys.get(question.question_id)) is None:
            if not self.definition.orders_recorded:
                self._keys.clear()  # they can be rebuilt
            keys = PromptKeys(self.definition, _build_shape(question), lists_options=lists_options)
            self._keys[question.question_id] = keys
        return keys

    def require_whole(self, file: str) -> None:
        """Raise IngestError for the first missing prompt unless every question has all of its variants."""
        present = self.checked.prompts.variants
        lacking = [
            question
            for question in self.questions.values()
            if not (expected := self.expected[question.question_id]) or expected - present(question.question_id)
        ]
        if not lacking:
            return
        first = lacking[0]
        absent = sorted(self.expected[first.question_id] - present(first.question_id))
        lost = "all of its variants"
        if absent:
            lost = f"variant {absent[0]}{_name_variant(self.definition, first, absent[0])}"
        raise IngestError(
            f"{file}: is incomplete: {len(lacking):,} of {len(self.questions):,} questions lack outputs, the first is "
            f"{first.external_id} ({lost}); nothing is imported; add what is missing, or import a benchmark without "
            "these questions"
        )


def _store_evaluation(
    session: Session,
    request: ImportRequest,
    answers: "_Answers",
    fingerprint: dict[str, object],
) -> Evaluation:
    definition, questions, expected = answers.definition, answers.questions, answers.expected
    revision = find_revision(session, request.model)
    version = find_version(session, request.benchmark)
    protocol_json = find_definition(session, answers.protocol, request.shots)
    # Another selection from the same file makes another evaluation, not a replicate.
    engine = {"name": "replay"} | ({"select": request.select} if request.select else {})
    specification = build_specification(
        revision, version, protocol_json, definition, engine, {"limit": None, "subjects": None}
    )
    digest = specification_digest(specification)
    latest = session.scalar(
        select(Evaluation.replicate)
        .where(Evaluation.specification_digest == digest)
        .order_by(Evaluation.replicate.desc())
        .limit(1)
    )
    variant_set = store_variant_set(session, definition)
    if definition.kind != "imported":
        shapes = {len(question.options): question for question in questions.values()}
        names = {n: definition.names(_build_shape(question)) for n, question in shapes.items()}
        store_variants(session, variant_set, names)
    evaluation = Evaluation(
        specification=specification,
        specification_digest=digest,
        asked_digest=compute_asked_digest(specification, len(questions), version.questions),
        replicate=0 if latest is None else latest + 1,
        model_revision=revision,
        benchmark_version=version,
        protocol=store_protocol(session, protocol_json),
        variant_set=variant_set,
        requester=request.requester,
        questions=len(questions),
        prompts=sum(map(len, expected.values())),
        repeats=definition.repeats if definition.repeats > 1 else None,
        **as_specified(specification),
        state="running",
    )
    session.add(evaluation)
    session.flush()
    shard = Shard(
        evaluation_id=evaluation.id,
        ordinal=0,
        queue="cpu",
        state="done",
        prompts=evaluation.prompts,
        engine_fingerprint_id=fingerprint_id(session, fingerprint),
    )
    session.add(shard)
    session.flush()
    rows = [
        {
            "evaluation_id": evaluation.id,
            "question_id": question.question_id,
            "n_variants": len(expected[question.question_id]),
            "shard_id": shard.id,
        }
        for question in questions.values()
    ]
    insert_rows(session, EvaluationQuestion, rows)
    return evaluation


def _expect_ordinals(definition: VariantSetDefinition, question: KnownQuestion, checked: Checked) -> set[int]:
    """Return the ordinals that a question must have: the kind's, or for imported orders those in the file."""
    if definition.kind == "imported":
        return checked.prompts.variants(question.question_id)
    try:
        return {variant.ordinal for variant in _list_variants(definition, question)}
    except VariantError:
        return set()


def _name_variant(definition: VariantSetDefinition, question: KnownQuestion, ordinal: int) -> str:
    if definition.kind == "imported":
        return ""
    return f", {definition.names(_build_shape(question)).get(ordinal, '')}".rstrip(", ")


def _store_rows(
    session: Session,
    evaluation: Evaluation,
    reader: Reader,
    answers: _Answers,
    tell: Report,
) -> None:
    definition, checked = answers.definition, answers.checked
    inserted = definition.inserted()
    ordinals = (
        number_inserted(definition.kind)
        if definition.kind != "imported"
        else {name: ordinal for ordinal, name in inserted.items()}
    )
    done = 0
    recorded = reader()
    while batch := list(islice(recorded, BATCH)):
        rows = [
            _build_row(
                evaluation.id,
                item,
                answers.keys(item.question, lists_options=evaluation.lists_options),
                tuple(ordinals[shown] if isinstance(shown, str) else shown for shown in item.order),
                inserted,
                checked.without_question,
            )
            for item in batch
        ]
        insert_predictions(session, rows)
        texts = [
            {
                **{key: row[key] for key in ("evaluation_id", "question_id", "variant")},
                **build_imported_text(item.text, item.reasoning, opened=checked.opened),
            }
            for row, item in zip(rows, batch, strict=True)
            if item.text is not None
        ]
        if texts:
            session.execute(insert(Generation.__table__), texts)  # type: ignore[arg-type]
        done += len(batch)
        tell("storing", done, checked.lines)


def _build_row(
    evaluation_id: int,
    recorded: Recorded,
    keys: PromptKeys,
    order: tuple[int, ...],
    inserted: Mapping[int, str],
    without_question: Mapping[tuple[int, VariantShown], tuple[float, ...]],
) -> dict[str, Any]:
    variant = keys.recorded(recorded.variant, order)
    counterpart = recorded.logprobs_without_question
    if counterpart is None and variant.question_shown:
        counterpart = without_question.get((recorded.question.question_id, variant.with_question()))
    return prediction_row(
        evaluation_id=evaluation_id,
        question_id=recorded.question.question_id,
        options=recorded.question.options,
        answer=recorded.question.answer,
        variant=variant,
        prompt_key=keys.of(variant),
        inserted=inserted,
        logprobs=recorded.logprobs,
        weights=recorded.weights,
        logprobs_without_question=counterpart,
        position=recorded.position,
        answered=recorded.answered,
    )
