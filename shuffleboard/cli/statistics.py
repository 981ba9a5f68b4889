"""`shuffleboard statistics`."""

import shutil
import textwrap
from typing import Any, Final

import click

from registry.db import read_session, write_session
from registry.errors import UsageError
from registry.leaderboard.reports import evaluation_metrics
from registry.lookups import find_sealed
from registry.metrics import METRICS
from registry.names import plural
from registry.operations.opening import engine_of
from registry.proposals import propose
from shuffleboard.cli.common import json_option, note, print_document, settings_of
from shuffleboard.cli.groups import Group
from shuffleboard.cli.noise import noise_from_option, print_noise
from shuffleboard.cli.tables import parse_headings, print_table, show, table_options


@click.group(
    cls=Group,
    lazily={
        "assess": "shuffleboard.cli.assess:assess",
        "compare-protocols": "shuffleboard.cli.protocol_comparison:compare_protocols",
        "published": "shuffleboard.cli.published:published",
    },
)
def statistics() -> None:
    """Compare evaluations; noise, PriDe, CoRA's bootstrap, guessing, power."""


@statistics.command("compare")
@click.argument("first", type=int)
@click.argument("second", type=int)
@table_options
@json_option
def compare(first: int, second: int) -> None:
    """Compare two evaluations of one benchmark, question by question.

    Every metric as FIRST minus SECOND over the questions that both have, with the interval by which boards
    form tiers, and McNemar's mid-p value if a question is either right or wrong. If both are of one model, the output
    says whether they are of the same revision; 'evaluations provenance FIRST SECOND' shows all other differences.
    Answers that only one has right are split by their cause: the model, the reading of texts, the key. Versions of a
    benchmark with the same questions and options can be compared, such as a replay and its source.
    """
    from registry.studies.causes import describe_causes
    from registry.studies.comparing import compare_evaluations, describe_relation

    with read_session(engine_of(settings_of())) as session:
        document = compare_evaluations(session, first, second)
    if print_document(document):
        return
    for key in ("first", "second"):
        side = document[key]
        click.echo(
            f"{key}: evaluation {side['evaluation']}, {side['model']} on {side['benchmark']}, {side['variants']}, "
            f"{side['protocol']} {side['shots']}-shot"
        )
    for sentence in (describe_relation(document), describe_causes(document["causes"])):
        if sentence is not None:
            click.echo(textwrap.fill(sentence, shutil.get_terminal_size().columns, break_on_hyphens=False))
    rows = [
        {
            "metric": METRICS[name].label,
            **{key: item[key] for key in ("first", "second", "difference", "n")},
            "interval": _interval_text(item["interval"]),
            "p": None if item["mcnemar"] is None else f"{item['mcnemar']['mid_p']:.4f}",
        }
        for name, item in document["metrics"].items()
        if item["difference"] is not None
    ]
    headings = parse_headings(
        "metric, first, second, difference, interval: 95 % interval, p: McNemar mid-p, n: Questions"
    )
    print_table(rows, headings, "no metric is defined for both")
    differing = document["differing"]
    if differing["metric"]:
        right = "right in every order" if differing["metric"] == "worst_accuracy" else "right as printed"
        for key, name in (("only_first", "the first"), ("only_second", "the second")):
            listed = ", ".join(item["external_id"] for item in differing[key][:20])
            more = "" if len(differing[key]) <= 20 else ", …"
            names = f" ({listed}{more})" if listed else ""
            click.echo(f"{right} only in {name}: {len(differing[key])}{names}")


@statistics.command("noise")
@click.argument("evaluation_ids", type=int, nargs=-1, required=True, metavar="ID...")
@noise_from_option
@json_option
def noise(evaluation_ids: tuple[int, ...], noise_from: int | None) -> None:
    """Separate repeat noise from order effects.

    Repeat noise: how often two answers to the same prompt differ. Order effect: how much more often they differ when
    the order differs. With one ID, all its sealed replicates are used; if another evaluation of the same model
    revision, benchmark version and protocol repeats prompts of more of its questions, the noise is taken from that.
    """
    from registry.studies.noise import noise_of_replicates

    with read_session(engine_of(settings_of())) as session:
        document = noise_of_replicates(session, evaluation_ids, noise_from)
    if print_document(document):
        return
    several = "s" if len(document["evaluations"]) > 1 else ""
    click.echo(f"evaluation{several} {', '.join(map(str, document['evaluations']))}:")
    print_noise(document)
    if document["repeat_disagreement"] is None:
        click.echo(f"  no prompt was asked twice; queue another: {propose('evaluations submit', '…', '--replicate')}")


@statistics.command("consistency")
@click.argument("evaluation_id", type=int)
@json_option
def consistency(evaluation_id: int) -> None:
    """Show SCORE's consistency rate, as it is defined and as lm-evaluation-harness computes it.

    The first is the metric score: the share of pairs of a question's answers that are equal. The harness counts pairs
    of all questions together, and two texts without an answer as equal if they are the same text.
    """
    from registry.studies.consistency import consistency_document

    with read_session(engine_of(settings_of())) as session:
        document = consistency_document(session, evaluation_id)
    if print_document(document):
        return
    for label, name in (
        ("consistency rate", "consistency_rate"),
        ("as the harness's page prints it", "printed"),
        ("as the harness computes it", "harness"),
        ("the harness, of orders", "harness_options"),
    ):
        click.echo(f"  {label:32} {show(document[name])}")


@statistics.command("spread")
@click.argument("evaluation_id", type=int)
@json_option
def spread(evaluation_id: int) -> None:
    """Show how far accuracies in different orders, and at different positions of the right option, are apart.

    Position bias is the standard deviation of accuracy over positions; order shift is the distance between two randomly
    chosen orders. Both are net of the sampling of questions, and 0 if only that is at work.
    """
    from registry.studies.spread import spread_document

    with read_session(engine_of(settings_of())) as session:
        document = spread_document(session, evaluation_id)
    if print_document(document):
        return
    for label, name in (("position bias", "position_bias"), ("order shift", "order_shift")):
        measure = document[name]
        if measure is None:
            click.echo(f"  {label:16} –")
            continue
        interval = "" if measure["interval"] is None else f"  [{', '.join(map(show, measure['interval']))}]"
        accuracies = " ".join(map(show, measure["accuracies"]))
        click.echo(f"  {label:16} {show(measure['value'])}{interval}  accuracies: {accuracies}")


@statistics.command("pride")
@click.argument("evaluation_id", type=int)
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Share of estimation questions.")
@json_option
def pride(evaluation_id: int, alpha: float) -> None:
    """Show PriDe's prior and estimation set, for any share of questions; the result is stored.

    The metric pride_accuracy is always that of the default share.
    """
    from registry.scores.pride import pride_document

    with write_session(engine_of(settings_of())) as session:
        document = pride_document(session, evaluation_id, alpha)
    if print_document(document):
        return
    click.echo(f"PriDe accuracy {show(document['pride_accuracy'])} over {document['questions']} questions")
    for options, prior in document["priors"].items():
        click.echo(f"  prior over {options} positions: {', '.join(map(show, prior))}")
    click.echo(f"  estimated from {len(document['estimation'])}: {', '.join(document['estimation'][:20])}")


@statistics.command("cora")
@click.argument("evaluation_id", type=int)
@json_option
def cora(evaluation_id: int) -> None:
    """Resample the variants: how much CoRA depends on which of them were asked. The result is stored."""
    from registry.studies.comparing import cora_document

    with write_session(engine_of(settings_of())) as session:
        document = cora_document(session, evaluation_id)
    if print_document(document):
        return
    click.echo(
        f"CoRA over {document['resamples']} draws of {document['draws']} of {document['variants']} variants: mean "
        f"{document['mean']:.4f}, standard deviation {document['standard_deviation']:.4f}"
    )


@statistics.command("clusters")
@click.argument("evaluation_id", type=int, metavar="ID")
@click.option("--by-subject", is_flag=True, help="Take each subject for a cluster.")
@table_options
@json_option
def clusters_command(evaluation_id: int, by_subject: bool) -> None:
    """Print intervals over clusters of questions, and the design effect of each metric.

    Questions are a cluster that have the same context, or the same `cluster` in the benchmark's file.
    """
    from registry.scores.clusters import compute_clustered_intervals

    with read_session(engine_of(settings_of())) as session:
        find_sealed(session, evaluation_id)
        alone = evaluation_metrics(session, evaluation_id)
        clustered = compute_clustered_intervals(session, evaluation_id, by_subject=by_subject)
    if print_document({"evaluation": evaluation_id, "by_subject": by_subject, "clustered": clustered}):
        return
    if clustered is None:
        click.echo(f"evaluation {evaluation_id}: every question stands for itself")
        return
    note(
        f"{plural(clustered['questions'], 'question')} in {plural(clustered['clusters'], 'cluster')}, "
        f"the largest of {clustered['largest']}"
    )
    rows = [
        {
            "metric": METRICS[name].label,
            "value": alone["metrics"][name],
            "alone": _interval_text(alone["intervals"][name]),
            "clusters": _interval_text(item["interval"]),
            "effect": item["design_effect"],
        }
        for name, item in clustered["metrics"].items()
        if name in alone["metrics"]
    ]
    headings = parse_headings("metric, value, alone: Questions alone, clusters, effect: Design effect")
    print_table(rows, headings, "no metric is defined for 30 questions")


def _interval_text(interval: list[float] | None) -> str | None:
    return None if interval is None else " … ".join(map(show, interval))


DIFFERING: Final = (0.05, 0.1, 0.2, 0.3, 0.5)
"""Shares of questions that only one of two models has right: from near copies to two that guess between two."""


@statistics.command("power")
@click.option("--questions", type=click.IntRange(30, 10**9), required=True, help="Questions that are asked.")
@click.option("--models", type=click.IntRange(2, 1000), default=30, show_default=True, help="Models to be compared.")
@click.option(
    "--difference", type=click.FloatRange(0, 1, min_open=True), help="Difference of two models, such as 0.02."
)
@click.option(
    "--power",
    type=click.FloatRange(0.5, 0.999),
    default=0.8,
    show_default=True,
    help="Probability with which the difference is to be found.",
)
@click.option(
    "--differing",
    type=click.FloatRange(0, 1, min_open=True),
    multiple=True,
    help="Share of questions on which one of the two alone is right, such as 0.3; may be given several times.",
)
@table_options
@json_option
def power_command(
    questions: int,
    models: int,
    difference: float | None,
    power: float,
    differing: tuple[float, ...],
) -> None:
    """Print the smallest difference between two models that this many questions detect.

    With --difference also the probability of finding that one, and the questions it needs. For means of questions that
    are right or wrong, such as accuracy; a difference of 0.02 is two percentage points.
    """
    from registry.statistics.power import (
        ONE_PAIR,
        critical_of,
        power_of_differing,
        questions_needed_of_differing,
        smallest_difference_of_differing,
    )

    shares = differing or tuple(share for share in DIFFERING if share >= (difference or 0)) or (1.0,)
    together = critical_of(models)
    rows: list[dict[str, Any]] = [
        {
            "differing": share,
            "one_pair": smallest_difference_of_differing(share, questions, power=power),
            "all_pairs": smallest_difference_of_differing(share, questions, power=power, critical=together),
        }
        for share in shares
    ]
    if difference is not None:
        for row in rows:
            for name, critical in (("", ONE_PAIR), ("_all", together)):
                true = (difference, row["differing"])
                row[f"power{name}"] = power_of_differing(*true, questions, critical=critical)
                row[f"needed{name}"] = questions_needed_of_differing(*true, power=power, critical=critical)
    if print_document(
        {"questions": questions, "models": models, "power": power, "difference": difference, "rows": rows}
    ):
        return
    if difference is None:
        smallest = {
            "differing": "One alone is right on",
            "one_pair": "Two models",
            "all_pairs": f"Any two of {models}",
        }
        print_table(rows, smallest, "no share")
        return
    headings = {
        "differing": "One alone is right on",
        "power": "Found with probability",
        "needed": "Questions needed",
        "power_all": f"Among {models} models",
        "needed_all": "Questions needed there",
    }
    print_table(rows, headings, "no share")


@statistics.command("guessing")
@click.option("--variants", "M", type=click.IntRange(1, 1000), required=True, help="Variants of each question.")
@click.option("--options", "k", type=click.IntRange(2, 1000), required=True, help="Options of each question.")
@table_options
@json_option
def guessing(M: int, k: int) -> None:
    """Print how likely guessing is to be right on a number of variants: the guessing table and MSGR."""
    from registry.statistics.guessing import guessing_table

    if M > 200:
        raise UsageError(f"--variants {M}: a table of up to 200 variants is printed")
    rows: list[dict[str, Any]] = [
        {
            "p": row.p,
            "probability_at_least": row.chance,
            "msgr": row.minimum_success_rate,
            "shown": row.shown,
        }
        for row in guessing_table(M, k)
    ]
    if print_document({"variants": M, "options": k, "rows": rows}):
        return
    headings = {"p": "Right on at least", "probability_at_least": "Probability by guessing", "shown": "MSGR"}
    print_table(
        [row | {"p": f"{row['p']} of {M}", "shown": f"{row['shown']:.2f}"} for row in rows], headings, "no variants"
    )
