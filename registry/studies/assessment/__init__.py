"""The assessment protocol: which cheap set of orders can replace all of them.

Goliakova et al., *Metric assessment protocol in the context of answer fluctuation on MCQ tasks*, §4, on an
organisation's own evaluations. `full` shows every order of the options, so each smaller set is a selection of its
predictions: the model is not run again.

    orders.py          the orders that a set shows, and the random draws
    tables.py          every answer to a benchmark as arrays; metrics of any selection of orders
    correlations.py    R², stability and the recommendation, from points
    evaluations.py     the points, from sealed evaluations
"""

from registry.studies.assessment.correlations import DEFAULT_TOLERANCE
from registry.studies.assessment.evaluations import Source, assess, assess_sources, assessable, check_tolerance, choose

__all__ = ["DEFAULT_TOLERANCE", "Source", "assess", "assess_sources", "assessable", "check_tolerance", "choose"]
