"""The list in docs/operations.md of the figures that the website serves to Prometheus, with kinds and labels."""

import re

from tests.docs.pages import DOCS, read
from web import create_app

ROW = re.compile(r"^\| `(\w+)(?:\{([\w,]+)\})?` \| (\w+) \| (PostgreSQL:|With )?", re.MULTILINE)


def test_the_figures_are_those_of_the_page(database: str) -> None:
    served = create_app(database_url=database).test_client().get("/metrics").text
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", served, re.MULTILINE))
    documented = {
        name: (kind, labels)
        for name, labels, kind, engine in ROW.findall(read(DOCS / "operations.md"))
        if not engine or (engine == "PostgreSQL:" and database.startswith("postgresql"))
    }
    assert {name: kind for name, (kind, _) in documented.items()} == kinds
    for name, labels in re.findall(r"^(\w+)\{([^}]*)\} ", served, re.MULTILINE):
        assert ",".join(re.findall(r'(\w+)="', labels)) == documented[name][1], name
