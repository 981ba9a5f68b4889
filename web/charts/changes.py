"""How far probabilities moved between two runs of the same prompts."""

from collections.abc import Mapping

from registry.schema.selectables import Row
from web.charts.drawing import LINE, LOST, QUIET, Chart, Layer, figure


def drift(counts: Mapping[str, int], unchanged: int) -> Chart:
    """A bar per power of ten: for how many prompts the largest change in a probability is within it.

    counts: power of ten, as text, to prompts, in rising order; unchanged: prompts where no probability changed.
    """
    labels = {key: f"up to 1e{key}" if key != "0" else "more" for key in counts}
    values: list[Row] = [{"label": "none", "prompts": unchanged, "place": 0}]
    values += [
        {"label": labels[key], "prompts": prompts, "place": place}
        for place, (key, prompts) in enumerate(counts.items(), start=1)
    ]
    x = {
        "field": "label",
        "type": "ordinal",
        "sort": {"field": "place"},
        "title": "Largest change in a probability",
        "axis": {"labelAngle": -45, "labelColor": QUIET, "domainColor": LINE},
    }
    y = {"field": "prompts", "type": "quantitative", "title": "Prompts", "axis": {"tickMinStep": 1}}
    tooltip = [
        {"field": "label", "title": "Largest change", "type": "nominal"},
        {"field": "prompts", "title": "Prompts", "type": "quantitative"},
    ]
    layers: list[Layer] = [{"mark": {"type": "bar", "color": LOST}, "encoding": {"x": x, "y": y, "tooltip": tooltip}}]
    total = unchanged + sum(counts.values())
    return figure(f"Largest change in a probability over {total} prompts, by power of ten.", values, layers, height=220)
