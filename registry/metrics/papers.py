"""The papers that the metrics come from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Paper:
    """A paper that metrics come from. arxiv: its identifier on arXiv."""

    authors: str
    title: str
    year: str
    arxiv: str


PAPERS: Final[Mapping[str, Paper]] = {
    "Goliakova et al.": Paper(
        "Goliakova, Renard, Lesot, Laugel, Marsala, Detyniecki",
        "Metric assessment protocol in the context of answer fluctuation on MCQ tasks",
        "2025",
        "2507.15581",
    ),
    "Gupta et al.": Paper(
        "Gupta, Pantoja, Ross, Williams, Ung", "Changing Answer Order Can Decrease MMLU Accuracy", "2024", "2406.19470"
    ),
    "Cavalin et al.": Paper(
        "Cavalin, Sanctos, Grave, Pinhanez, Primerano",
        "Improving Score Reliability of Multiple Choice Benchmarks with Consistency Evaluation and Altered Answer "
        "Choices",
        "2025",
        "2511.21860",
    ),
    "Nowak et al.": Paper("Nowak, Cadet, Chin", "ABCD: All Biases Come Disguised", "2026", "2602.17445"),
    "Cho et al.": Paper("Cho, So, Lee", "Choices Speak Louder than Questions", "ICLR 2026", "2502.18798"),
    "Zheng et al.": Paper(
        "Zheng, Zhou, Meng, Zhou, Huang",
        "Large Language Models Are Not Robust Multiple Choice Selectors",
        "ICLR 2024",
        "2309.03882",
    ),
    "Nalbandyan et al.": Paper(
        "Nalbandyan, Shahbazyan, Bakhturina",
        "SCORE: Systematic COnsistency and Robustness Evaluation for Large Language Models",
        "NAACL 2025",
        "2503.00137",
    ),
}


@dataclass(frozen=True)
class Source:
    """A place in a paper that defines a number. paper: a key of PAPERS."""

    paper: str
    place: str


def goliakova(place: str) -> Source:
    """Cite a place in Goliakova et al."""
    return Source("Goliakova et al.", place)


def gupta(place: str) -> Source:
    """Cite a place in Gupta et al."""
    return Source("Gupta et al.", place)


def cavalin(place: str) -> Source:
    """Cite a place in Cavalin et al."""
    return Source("Cavalin et al.", place)


def nowak(place: str) -> Source:
    """Cite a place in Nowak et al."""
    return Source("Nowak et al.", place)


def cho(place: str) -> Source:
    """Cite a place in Cho et al."""
    return Source("Cho et al.", place)


def zheng(place: str) -> Source:
    """Cite a place in Zheng et al."""
    return Source("Zheng et al.", place)


def nalbandyan(place: str) -> Source:
    """Cite a place in Nalbandyan et al."""
    return Source("Nalbandyan et al.", place)
