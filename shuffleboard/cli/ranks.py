"""`shuffleboard ranks`: ranks and their uncertainty from a table of scores. It neither reads nor writes a database."""

from pathlib import Path

import click

from shuffleboard.cli.common import GivenFile, json_option, note, print_document
from shuffleboard.cli.tables import print_table, table_options

HEADINGS = {
    "rank": "Rank",
    "model": "Model",
    "mean": "Mean",
    "interval": "95 % interval",
    "rank_interval": "Rank interval",
    "tier": "Tier",
}


@click.command()
@click.argument("scores", type=GivenFile(), metavar="SCORES")
@table_options
@json_option
def ranks(scores: Path) -> None:
    """Rank the models of a table of scores: means, intervals, and pairs that can be distinguished.

    SCORES is a CSV file (also with semicolons or tabs), with one row for each score or for each model:

    \b
      model,question,score          model,q1,q2,q3
      small,q1,1                    small,1,0,1
      small,q2,0                    large,1,1,1

    Questions may be tasks. Higher scores are better. The rank intervals are simultaneous; models in one tier
    cannot be distinguished from the best one in it. No registry is needed, and nothing is registered.
    """  # noqa: D301
    from registry.studies.score_tables import rank_scores, read_scores, remarks_on

    table = read_scores(scores)
    document = rank_scores(table)
    for remark in remarks_on(table):
        note(remark)
    if print_document(document):
        return
    rows = [
        row
        | {
            "interval": None if row["interval"] is None else "{:.3f} to {:.3f}".format(*row["interval"]),
            "rank_interval": "{} to {}".format(*row["rank_interval"]),
        }
        for row in document["models"]
    ]
    print_table(rows, HEADINGS, "")
    pairs = document["pairs"]
    click.echo(
        f"\n{pairs['distinguished']:,} of {pairs['total']:,} pairs can be distinguished, on {document['questions']:,} "
        "questions."
    )
