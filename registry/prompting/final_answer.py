r"""The rules of `final-answer` and `final-answer-text`: how chat models state what they chose.

    answer-line    `Answer: X`, "the answer is X", "X is the correct option", in any emphasis and in many languages
    boxed          `\boxed{X}`, `\boxed{\text{X}}`
    json           `{"answer": "X"}`
    tag            `<answer>X</answer>`
    label-alone    a last line that is nothing but a label, or a label with its own option's text
    option-alone   a last line that is nothing but one option's text

X is a label, a label with its option's text, or one option's text. A label counts only as a word of its own, in
capitals unless nothing follows it. Each rule gives its last match. Two answers on the line that decides are none, and
neither are two rules that disagree, with one exception: what a sentence says in passing ("at first sight the answer is
A") gives way to a box, JSON, a tag or a last line that comes after it. No doubt is resolved by a guess.

An answer that was cut off at a limit may lack its end: what touches the cut counts only if it cannot have gone on.
"""

import re
import unicodedata
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from html import unescape
from importlib.resources import files
from typing import Final

from registry.files.toml import parse_toml, read_definition

RULES: Final = ("answer-line", "boxed", "json", "tag", "label-alone", "option-alone")
TEXT_RULES: Final = ("answer-line", "boxed", "json", "tag", "option-alone")


@dataclass(frozen=True)
class Claim:
    """What one match says. position: None where it names no single option. text: X as written, without decoration.

    line: number of its line. explicit: a form that is used for nothing else than the final answer. to_match: the text
    names an option in other words, and is to be matched by its meaning. denies: it says what the answer is not.
    """

    rule: str
    start: int
    line: int
    position: int | None
    text: str
    explicit: bool = True
    to_match: bool = False
    denies: bool = False

    @property
    def says(self) -> int | str | None:
        """What two claims must have in common to be one answer; None where there is none."""
        return _bare(self.text).casefold() if self.to_match else self.position


# Formatting is taken away, line by line, from answers and options alike


_INVISIBLE: Final = re.compile("[\u200b-\u200f\u2060-\u2064\ufeff\u00ad\ufe0e\ufe0f\u202a-\u202e\u2066-\u2069]")
_STRUCK: Final = re.compile(r"~~[^~\n]+~~|<(s|del|strike)>[^<\n]*</\1>", re.IGNORECASE)
_HTML: Final = re.compile(
    r"</?(?:(?-i:b|i|u|p)|em|strong|span|div|mark|code|center|font|h[1-6]|li|ul|ol|small|big)(?: [^<>\n]{0,200})?>|"
    r"<(?P<capital>[BIUP])>(?=[^<\n]*</(?P=capital)>)|(?<=[^\s<>])</[BIUP]>",
    re.IGNORECASE,
)
_LATEX: Final = re.compile(
    r"\\(?:text|textbf|textit|textrm|textsf|texttt|textnormal|mathbf|mathrm|mathit|mathsf|mathtt|mathbb|mathcal|"
    r"boldsymbol|bm|bf|rm|mbox|operatorname|emph|underline|large|Large|huge|displaystyle)\b\*?\s*"
    r"(?:\{([^{}\n]*)\})?"
)
_FRACTION: Final = re.compile(r"\\[cdt]frac(?![a-zA-Z])")
_LATEX_COLOUR: Final = re.compile(r"\\(?:text)?color\s*\{[^{}\n]*\}")
_LATEX_SPACE: Final = re.compile(r"\\(?:[ ,;:!]|quad\b|qquad\b)")
_LATEX_ESCAPE: Final = re.compile(r"\\(?=[%&#_$])")
_LATEX_MATH: Final = re.compile(r"\\[()\[\]]|\\(?:left|right)(?![a-zA-Z])\.?|\$")
_LINE_START: Final = re.compile(r"^[ \t]*(?:(?:#{1,6}|[>•▪◦‣●–—✅✔☑👉➡→⇒]|[-=]>|[-+]|\*)[ \t]+)+", re.MULTILINE)
_FENCE: Final = re.compile(r"^[ \t]*(?:```|~~~)[^`\n]*$", re.MULTILINE)
_RULER: Final = re.compile(r"^[ \t]*(?:-{3,}|\*{3,}|_{3,}|={3,})[ \t]*$", re.MULTILINE)
_EMPHASIS: Final = re.compile(r"[*`]+|(?<![^\W_])_+|_+(?![^\W_])")
_SIGNS: Final = str.maketrans(dict.fromkeys("“”„‟", '"') | dict.fromkeys("‘’‚′", "'") | {"−": "-"})


def plain(text: str) -> str:
    r"""The text without emphasis, mark-up and LaTeX around words, in compatible characters (full-width A is A).

    Lines stay lines. `\boxed` stays.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("<br>", "\n").replace("<br/>", "\n")
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", unescape(text))).translate(_SIGNS)
    text = _STRUCK.sub(" ", text)
    text = _HTML.sub("", _FENCE.sub("", text))
    text = _LATEX_COLOUR.sub("", text)
    text = _FRACTION.sub(r"\\frac", _LATEX_SPACE.sub(" ", text))
    for _ in range(3):  # such as \textbf{\text{B}}
        text = _LATEX.sub(lambda match: match[1] or "", text)
    text = _LATEX_MATH.sub("", _LATEX_ESCAPE.sub("", text))
    text = _RULER.sub("", text)
    text = _LINE_START.sub("", text)
    return _EMPHASIS.sub("", text)


_AROUND: Final = " \t\n\"'()[]{}<>«»「」『』【】《》:;.,!。、"


def _bare(text: str) -> str:
    """A text as it is compared: blanks joined, without what may stand around it."""
    return " ".join(text.split()).strip(_AROUND)


# What may be answered with


@dataclass(frozen=True)
class Shown:
    """Labels and options by position, in the forms in which they are compared."""

    labels: tuple[str, ...]
    options: tuple[str, ...]
    by_label: Mapping[str, int] = field(hash=False)
    by_text: Mapping[str, int | None] = field(hash=False)
    label: re.Pattern[str]

    def position_of_text(self, text: str, *, cut: bool = False) -> int | None:
        """The one option whose text this is, first as written and then whatever its capitals; None for none or two.

        cut: the text may go on, so that it is no option if another one begins with it.
        """
        bare = _bare(text)
        if not bare:
            return None
        folded = bare.casefold()
        if cut and any(option.startswith(folded) and option != folded for option in self.folded):
            return None
        return self.by_text[bare] if bare in self.by_text else self.by_text.get(f"\x00{folded}")

    @property
    def folded(self) -> Iterator[str]:
        """Options in small letters."""
        return (key[1:] for key in self.by_text if key.startswith("\x00"))

    def position_of_label(self, label: str) -> int | None:
        """The position of a label, whatever its capitals."""
        position = self.by_label.get(label)
        return self.by_label.get(f"\x00{label.casefold()}") if position is None else position


@lru_cache(maxsize=1024)
def shown_of(labels: tuple[str, ...], options: tuple[str, ...]) -> Shown:
    """The forms of what was shown; labels may be empty, where only texts are answered with."""
    cores = tuple(plain(label).strip(_AROUND) or label for label in labels)
    by_label: dict[str, int] = {core: position for position, core in enumerate(cores)}
    folded = [core.casefold() for core in cores]
    if len(set(folded)) == len(folded):
        by_label |= {f"\x00{core}": position for position, core in enumerate(folded)}
    by_text: dict[str, int | None] = {}
    for position, option in enumerate(options):
        bare = _bare(plain(option)) or _bare(option) or option
        for key in (bare, f"\x00{bare.casefold()}"):
            by_text[key] = None if key in by_text else position
    some = "|".join(re.escape(core) for core in sorted(cores, key=len, reverse=True)) or "(?!)"
    return Shown(cores, options, by_label, by_text, re.compile(rf"(?P<label>{some})", re.IGNORECASE))


# Reading one X

_WORD: Final = r"A-Za-z0-9_\u00c0-\u024f\u0370-\u052f"
"""Characters that make a label part of a word. Scripts without blanks between words are not among them."""
_OPEN: Final = re.compile(
    r"(?:</?(?:final[_ ]?)?answer>|(?:(?:most\s+)?likely|probably)\s+|"
    r"[\s\"'(\[{<«「『【《:=→⇒]|->|=>|[-–—](?![\d.])|\\(?:boxed|fbox)\s*\{|"
    r"(?:(?:the|la|die|der)\s+|l')?(?:correct\s+|right\s+)?(?:option|choice|letter|label|number|answer|"
    r"опция|вариант|opción|opcion|opção|buchstabe|lettre|letra|lettera|选项|選項|選択肢)\s*(?=[^\w\s]*\s*[^\W_](?![^\W_]))|la\s+(?=\W?[a-z]\b))*",
    re.IGNORECASE,
)
_CLOSE: Final = re.compile(r"[ \t]*[\"')\]}>»」』】》]+")
_AFTER: Final = re.compile(
    r"[.):,;!?。、,;:]|\s*$|\s+[^\w\s❌✗✘✖🚫]+\s*$|\s*\n|\s+[(\[\"'«]|\s+[-–—=→]\s|\s*[。、，；：（]"
)
_GOES_ON: Final = re.compile(
    r"\s+(?:because|since|as|for|due|given|based|according|which|that|where|in|on|at|here|from|by|with|and|or|but|not|"
    r"is|so|then|if|unless|when|rather|nor|therefore|i\.e\.|namely|however|although|though|while|indeed|"
    r"being|representing|considering|instead|(?:[Ff]inal\s+)?[Aa]nswer\s*:|I\s+(?:think|believe|guess)|et|ou|car|und|oder|weil|da|porque|y|o|e|perché|"
    r"и|или|потому|так|です|である|입니다|이다)(?![-\w'])"
)
_PART_OF_WORD: Final = re.compile(rf"[{_WORD}+#%°^=@\\]|['’][A-Za-z]|[-‐‑][A-Za-z0-9]|\.[A-Za-z]\.|[.,]\d|&|/\w|:\d")
_IF: Final = re.compile(r"\s+(?:if|unless|when)\b", re.IGNORECASE)


def _label_at(shown: Shown, text: str, at: int, end: int, *, cut: bool) -> tuple[int, int] | None:
    """(position, where the label ends) of a label as a word of its own at `at`, whose line ends at `end`."""
    match = shown.label.match(text, at, end)
    if match is None:
        return None
    after = match.end()
    if match[0].isalnum():
        if at > 0 and re.match(rf"[{_WORD}]", text[at - 1]):
            return None
        if _PART_OF_WORD.match(text, after, end) and not _own_text(shown, match[0], text, after, end):
            return None
    position = shown.position_of_label(match[0])
    if position is None:
        return None
    same_case = match[0] == shown.labels[position]
    touches = not text[after:].strip()
    if cut and touches and not same_case:
        return None
    if _CLOSE.match(text, after, end) or _AFTER.match(text, after, end):
        lonely = not text[after:end].strip(_AROUND + "?")
        # A small letter before more words is a word ("a, b and c"), and so is one that ends a sentence of them.
        return (position, after) if same_case or lonely or _delimited(text, after, end) else None
    if _own_text(shown, match[0], text, after, end):
        return position, after
    if same_case and (_GOES_ON.match(text, after, end) or not re.match(rf"[{_WORD}\s]", text[after : after + 1])):
        return position, after
    return None


def _delimited(text: str, after: int, end: int) -> bool:
    """Whether a label is followed as one in front of an option is: `b) …`, `b. …`."""
    return bool(re.match(r"[).:](?:\s|$)", text[after:end]))


def _own_text(shown: Shown, label: str, text: str, after: int, end: int) -> str:
    """What of the line after a label is its own option's text, with what stands before it; empty where none is."""
    position = shown.position_of_label(label)
    if position is None:
        return ""
    own = _bare(plain(shown.options[position])).casefold()
    rest = text[after:end]
    lead = re.match(r"[\s\"')\]}>»」』】》.:,;–—=(\[-]*", rest)
    assert lead is not None
    body = rest[lead.end() :]
    if own and body.casefold().startswith(own) and not re.match(rf"[{_WORD}]", body[len(own) : len(own) + 1]):
        return rest[: lead.end() + len(own)]
    return ""


_OPEN_ENDED: Final = re.compile(r"^\W*\b(?:or|and)\W*$|^\s*[,/&]\s*$", re.IGNORECASE)
_NEGATED: Final = re.compile(
    r"\b(?:not|never|than|of|unlike|nor|neither|except|over|against|excluding|no)\W{0,3}$", re.IGNORECASE
)
_LISTED: Final = re.compile(
    r"(?:[,/&+;|?→<>]|->|[)\]]\s*(?=[(\[])|\b(?:or|and|actually|wait|maybe|perhaps|possibly|instead|correction|sorry|to|both|also|then|"
    r"et|ou|und|oder|y|o|e|и|или)\b|和|或|与|與|、|または|か|と|또는|와|과)"
    r"[\s(\[\"']*(?:(?:the\s+)?(?:option|choice|letter|answer)\s+(?:is\s+)?[(\[\"']*)?$|"
    r"\b(?:could|may|might)\s+(?:also\s+|well\s+)?be\s+$",
    re.IGNORECASE,
)
_IN_PASSING: Final = re.compile(r"(?:,|and|or)\b", re.IGNORECASE)
_ASIDE: Final = re.compile(
    r"\b(?:while|whereas|since|because|as|although|though)\s+(?:both\s+)?(?:options\s+)?\(?\w\)?\s*$", re.IGNORECASE
)
"""What stands before the second of two options that explain an answer: `B, as A and C are cities`."""
_NEW_SENTENCE: Final = re.compile(r"[.!?]\s+[^\W\d_]+[^\w.!?]+[^\W\d_]{2,}\b")
"""What begins another sentence with two words at least: options named there by the way are no answer."""
_STATED_OF: Final = re.compile(
    r"[\"')\]]*(?:(?:,?\s+(?:and|or|&)|,)\s+\(?[A-Z0-9]\)?(?!\w))*\s+(?:is|are|was|were|would|does|do|has|have|can|"
    r"cannot|can't|isn't|doesn't|seems?|fails?|describes?|refers?|represents?|involves?|contradicts?)\b(?!\s+(?:also|equally|correct|right|possible|plausible|true))",
    re.IGNORECASE,
)
_DENIED: Final = re.compile(
    r"\s+(?:all |both |clearly )?(?:wrong|false|not|im\w+|un\w+|in\w{4,}|ruled|excluded|eliminated)\b", re.IGNORECASE
)
_TAKEN_BACK: Final = re.compile(
    r"[\"')\]]*\s+(?:isn't|cannot|can't|(?:is|was)\s+(?:\w+ly |also |just )?(?:wrong|incorrect|false|not|ruled)\b)"
)
_REJECTED: Final = re.compile(
    r"[ \t$}\])\"'`]*\s(?:isn't|cannot|can't|would|could|might|"
    r"(?:is|was)\s+(?:\w+ly |just )?(?:wrong|incorrect|false|not|tempting)\b)"
)
"""What follows a box, JSON or a tag that says what the answer is not."""
_ALSO: Final = re.compile(
    r"[\"')\]]*\s+(?:is|are|would be|could be|might be)\s+(?:also|equally|correct|right|possible|plausible)",
    re.IGNORECASE,
)


def _another_named(shown: Shown, text: str, position: int, after: int, end: int) -> bool:
    """Whether the line goes on to another answer: `A or B`, `A, B`, `A … actually B`, or another option's text."""
    own = _own_text(shown, shown.labels[position], text, after, end)
    start = after + len(own)
    rest = text[start:end]
    if not own:
        other = shown.position_of_text(rest)
        if other is None:
            other = shown.position_of_text(rest.lstrip(_AROUND + "-–—=→"))
        if other is not None and other != position:
            return True
    if own == "" and _OPEN_ENDED.search(rest):
        return True
    word = re.compile(rf"(?<![{_WORD}'’&-]){shown.label.pattern}(?![{_WORD}&+#°%]|['’][A-Za-z]|-[A-Za-z])")
    return any(
        shown.position_of_label(match[0]) not in (None, position) and _is_named(shown, text, match, start, end)
        for match in word.finditer(text, start, end)
    )


def _is_named(shown: Shown, text: str, match: re.Match[str], start: int, end: int) -> bool:
    """Whether a label in text[start:end] is given as an answer: not denied, nor mentioned in passing or in a reason."""
    before = text[max(start, match.start() - 40) : match.start()]
    if _NEGATED.search(before):
        return False
    if not text[start : match.start()].strip(_AROUND) and _own_text(shown, match[0], text, match.end(), end):
        return True  # the list of options
    if _ALSO.match(text, match.end(), end):
        return True
    listed = _LISTED.search(before)
    if listed is None or (_IN_PASSING.match(listed[0]) and _NEW_SENTENCE.search(text, start, match.start())):
        return False
    if _ASIDE.search(before, 0, listed.start()):
        return False
    stated = _STATED_OF.match(text, match.end(), end)
    apart = before[listed.start() : listed.start() + 1] in ",;"
    return stated is None or not (apart or _DENIED.match(text, stated.end(), end))


_UNKNOWN: Final = re.compile(
    rf"[A-Z](?![{_WORD}'’+#-])(?!\s+[a-z])|\d+(?![\w.,])|(?:none|neither|all|both|either|not)\b"
)


@dataclass(frozen=True)
class _Said:
    """X of a match, as Claim has it."""

    position: int | None
    text: str
    to_match: bool = False

    def claim(self, rule: str, start: int, line: int, *, explicit: bool = True) -> Claim:
        return Claim(rule, start, line, self.position, self.text, explicit, self.to_match)


def _in_words(shown: Shown, text: str, start: int, end: int, *, cut: bool) -> _Said | None:
    """X in the words of an option, where options have no labels."""
    whole = text[start:end].strip()
    touches = cut and not text[end:].strip()
    for part in (whole, re.split(r"[.!?]\s", whole, maxsplit=1)[0]):
        position = shown.position_of_text(part, cut=touches)
        if position is not None:
            return _Said(position, _bare(part))
    bare = _bare(whole)
    folded = bare.casefold()
    if len(bare) < 2 or touches or _UNKNOWN.match(bare):
        return _Said(None, whole) if bare else None
    named = {option for option in shown.folded if len(option) > 1 and option in folded}
    longest = {option for option in named if not any(option != other and option in other for other in named)}
    return _Said(None, whole) if len(longest) > 1 else _Said(None, bare, to_match=True)


def _claim_of(shown: Shown, text: str, start: int, end: int, *, cut: bool) -> _Said | None:
    """X as it stands in [start, end) of a line; without a position where it names no one option.

    None where it is nothing that could be an answer: "The answer is in the text".
    """
    if not shown.labels:
        return _in_words(shown, text, start, end, cut=cut)
    opening = _OPEN.match(text, start, end)
    at = start if opening is None else opening.end()
    whole = text[start:end].strip()
    body = whole.rstrip("?")
    by_text = shown.position_of_text(body, cut=cut and not text[end:].strip())
    if by_text is not None and shown.position_of_label(_bare(body)) is None:
        return _Said(by_text, _bare(body))  # such as the option "A and B"
    named = _label_at(shown, text, at, end, cut=cut)
    if named is not None:
        position, after = named
        taken_back = _IF.match(text, after, end) or _TAKEN_BACK.match(text, after, end)
        if taken_back or _another_named(shown, text, position, after, end):
            return _Said(None, whole)
        return _Said(position, text[at:after])
    labelled = _option_with_label(shown, body)
    if labelled is not None:
        return labelled
    begun = _option_at(shown, text, at, end)
    if begun is not None:
        return begun
    return _Said(None, whole) if _UNKNOWN.match(text, at, end) else None


def _option_with_label(shown: Shown, body: str) -> _Said | None:
    """X that is an option's text with a label behind it: `Paris (B)`; without a position where they differ."""
    match = re.fullmatch(r"(.*\S)\s*[(\[]\s*(?:option\s+)?([^\s()\[\]]+)\s*[)\]]\W*", body, re.IGNORECASE)
    label = None if match is None else shown.position_of_label(match[2])
    option = None if match is None else shown.position_of_text(match[1])
    if match is None or label is None or option is None:
        return None
    return _Said(option if option == label else None, match[2])


_SAYS_WHY: Final = re.compile(
    r"[\"')\]]*(?:[.;!]\s|,?\s+(?:because|since|as|not|rather\s+than|instead\s+of|which\s+is)\b)", re.IGNORECASE
)


def _option_at(shown: Shown, text: str, at: int, end: int) -> _Said | None:
    """X that begins with an option's text and goes on to say why; without a position where it names another one."""
    folded = text[at:end].casefold()
    begun = max((option for option in shown.folded if folded.startswith(option)), key=len, default="")
    position = shown.position_of_text(begun)
    if position is None or not _SAYS_WHY.match(folded, len(begun)):
        return None
    rest, own = folded[len(begun) :], shown.labels[position]
    for other in shown.folded:
        named = re.search(rf"(?<![{_WORD}]){re.escape(other)}(?![{_WORD}])", rest)
        if named is not None and other != begun and not _NEGATED.search(rest[: named.start()]):
            return _Said(None, text[at:end].strip())
    labels = shown.label.finditer(text, at + len(begun), end)
    if any(match[0] != own and _label_at(shown, text, match.start(), end, cut=False) for match in labels):
        return _Said(None, text[at:end].strip())
    return _Said(position, _bare(text[at : at + len(begun)]))


# The rules


@dataclass(frozen=True)
class _Words:
    """Lead-ins: `Answer:` (explicit), "the answer is" (said), a line that only announces the answer (header).

    unsure: what takes a saying back when it stands before it. turned_round: what follows X in "X is the correct
    answer". connectives: what may stand before that X.
    """

    explicit: re.Pattern[str]
    said: re.Pattern[str]
    header: re.Pattern[str]
    turned_round: re.Pattern[str]
    connectives: re.Pattern[str]
    unsure: re.Pattern[str]


@lru_cache(maxsize=1)
def _words() -> _Words:
    """The patterns of lead-ins, made of the words that the data file holds."""
    data = parse_toml(read_definition(files(__package__) / "answer_words.toml"), "answer_words.toml")
    nouns, good, before, copulas, foreign, foreign_said = (
        _one_of(data[key]) for key in ("nouns", "good", "before", "copulas", "foreign", "foreign_said")
    )
    lead = rf"(?:(?:{before}|{good})[\s:,]+){{0,6}}"
    kind = r"(?:\s+(?:choice|option|letter))?(?:\s*\([^()\n]{3,40}\))?"
    what = rf"(?:(?P<lead>{lead})answer{kind}|(?P<praised>{lead}(?:{good})\s+(?:{nouns})){kind})"
    about = (
        r"(?:\s+here|\s+(?:to|for|of|among|from)\s+(?:[^.:!?\"\n]{0,30}\"[^\"\n]{1,300}\"|[^.:!?\n]{1,60}?))?"
        r"(?:\s*,\s*(?:I\s+(?:think|believe)|then|therefore|thus|of\s+course)\s*,)?"
    )
    # A separator counts as one only where it cannot be part of a word.
    colon = r"\s*(?::|=(?!=)|->|→|[ \t][-–—](?=\s))"
    start = rf"(?<![{_WORD}'’-])"
    return _Words(
        re.compile(rf"{start}(?:{what}\s*(?:is\s*)?{colon}|(?:{foreign})\s*:)", re.IGNORECASE),
        re.compile(
            rf"(?:{start}{what}{about}\s*,?\s*(?<![{_WORD}])(?:{copulas})(?![{_WORD}'’-])|(?:{foreign_said}))\s*:?",
            re.IGNORECASE,
        ),
        re.compile(
            rf"[^\w\"'{{]*(?:{lead}(?:answer{kind}|(?:{good})\s+(?:{nouns}))|{foreign})[^\w\"'=]*", re.IGNORECASE
        ),
        re.compile(
            rf"(?<=[^\s])[ \t]+(?:is|must\s+be)\s+(?:\w+ly\s+|indeed\s+|thus\s+)?"
            rf"the\s+(?:(?:{good})\s+(?:{nouns})|answer)"
            r"(?=[\"')\]]*(?:$|[.,;!](?:\s|$))|\s+(?:because|since|as|here)\b)",
            re.IGNORECASE | re.MULTILINE,
        ),
        re.compile(
            r"^(?:(?:so|thus|hence|therefore|then|and|that|I\s+(?:think|believe|conclude)),?\s+)*(?:(?:option|choice|answer)\s+)?",
            re.IGNORECASE,
        ),
        re.compile(rf"(?:{'|'.join(data['unsure'])})[\s\"']*$", re.IGNORECASE),
    )


def _one_of(texts: Sequence[str]) -> str:
    """An alternative of texts whose blanks may be any; a longer one comes before those that it begins with."""
    longest_first = sorted(texts, key=len, reverse=True)
    return "|".join(re.escape(unicodedata.normalize("NFKC", text)).replace(r"\ ", r"\s+") for text in longest_first)


MAX_STATED: Final = 1_000
"""Characters after a lead-in, or in a box or a tag, that are looked at: a final answer is no longer."""
LAST: Final = 20
"""As many matches of a rule are looked at, or of a line: the last ones. They decide."""


MAX_HEADER: Final = 80
"""Characters of a line that only announces the answer."""


@dataclass(frozen=True)
class _Text:
    """An answer, plain, with where its lines begin and end; cut, marked: as final_answer has them.

    raw: with its formatting.
    """

    text: str
    lines: tuple[tuple[int, int], ...]
    cut: bool
    marked: bool
    raw: str

    def line_at(self, offset: int) -> int:
        return bisect_right(self.lines, (offset, len(self.text) + 1)) - 1

    @property
    def last_line(self) -> int | None:
        """The last line that is not blank."""
        numbers = range(len(self.lines) - 1, -1, -1)
        return next((number for number in numbers if _bare(self.of(number)) or self.of(number).strip()), None)

    def of(self, number: int) -> str:
        start, end = self.lines[number]
        return self.text[start:end]


def _text_of(answer: str, *, cut: bool, marked: bool) -> _Text:
    text = plain(answer)
    lines, start = [], 0
    for line in text.split("\n"):
        lines.append((start, start + len(line)))
        start += len(line) + 1
    return _Text(text, tuple(lines), cut, marked, answer)


def _answer_lines(shown: Shown, text: _Text) -> Iterator[Claim]:
    """Each lead-in of the text with what it leads to."""
    words = _words()
    for number in range(len(text.lines) - 1, -1, -1):
        claims = list(_of_line(words, shown, text, number))
        yield from claims
        if any(claim.explicit for claim in claims):
            return  # what stands before the last `Answer:` does not decide


def _of_line(words: _Words, shown: Shown, text: _Text, number: int) -> Iterator[Claim]:
    start, end = text.lines[number]
    found = [(match, True) for match in deque(words.explicit.finditer(text.text, start, end), LAST)]
    found += [(match, False) for match in deque(words.said.finditer(text.text, start, end), LAST)]
    for match, explicit in found:
        before = text.text[max(start, match.start() - MAX_HEADER) : match.start()]
        supposed = "would" in match[0].casefold() and re.search(r"\b(?:if|had|were|unless)\b", before, re.IGNORECASE)
        if not supposed and not _foreign_owner(shown, before, match) and not words.unsure.search(before):
            yield from _led_to(shown, text, number, match, explicit=explicit)
    yield from _turned_round(words, shown, text, number)
    if not found and end - start < MAX_HEADER:
        if words.header.fullmatch(text.text, start, end):
            yield from _below(shown, text, number, end, header=True)
        elif (header := words.header.match(text.text, start, end)) is not None:
            label = _bare(text.text[header.end() : end])
            if (position := shown.position_of_label(label)) is not None:
                yield Claim("answer-line", start, number, position, label)


def _turned_round(words: _Words, shown: Shown, text: _Text, number: int) -> Iterator[Claim]:
    """What is said the other way round: `B is the correct answer`, as a sentence of its own."""
    start, end = text.lines[number]
    for match in deque(words.turned_round.finditer(text.text, start, end), LAST):
        before = text.text[max(start, match.start() - MAX_STATED) : match.start()]
        subject = _bare(words.connectives.sub("", _bare(re.split(r"[:;!?]\s|(?<!\b[A-Z])\.\s", before)[-1])))
        label, option = shown.position_of_label(subject), shown.position_of_text(subject)
        position = _labelled_option(shown, subject) if label is None and option is None else label
        position = option if position is None else position
        if position is not None and (label is None or subject == shown.labels[label]):
            yield Claim("answer-line", match.start(), number, position, subject, explicit=False)


def _foreign_owner(shown: Shown, before: str, match: re.Match[str]) -> bool:
    """Whether the word before a lead-in says whose answer it is, or that it is a wrong one."""
    owner = re.search(rf"(?P<word>[{_WORD}'’-]+)[ \t]+$", before)
    if owner is None or match.re.groups == 0 or owner["word"] in shown.labels:
        return False
    lead = match.groupdict().get("lead") or match.groupdict().get("praised") or ""
    lead = re.split(r"[,:]\s*(?=\w)", lead)[-1]  # of "right, the" what belongs to the noun
    determined = re.match(r"(?:the|my|our|so|thus|hence|therefore|and|then|an|that)\b", lead, re.IGNORECASE)
    if match[0][0].isascii() and not determined:
        return owner["word"].casefold() not in {"is", "was", "are"} or owner["word"].casefold() == "not"
    return False


def _led_to(shown: Shown, text: _Text, number: int, match: re.Match[str], *, explicit: bool) -> Iterator[Claim]:
    end = min(text.lines[number][1], match.end() + MAX_STATED)
    if not text.text[match.end() : end].strip(_AROUND):
        yield from _below(shown, text, number, match.end(), header=False)
        return
    negation = None if explicit else re.compile(r"\W*not\s+", re.IGNORECASE).match(text.text, match.end(), end)
    if negation is not None:
        denied = _claim_of(shown, text.text, negation.end(), end, cut=text.cut)
        rather = re.compile(r"\bbut\s+(?:rather\s+)?").search(text.text, negation.end(), end)
        instead = None if rather is None else _claim_of(shown, text.text, rather.end(), end, cut=text.cut)
        if instead is not None and instead.position is not None:
            yield instead.claim("answer-line", match.start(), number, explicit=False)
        elif denied is not None and denied.position is not None:
            yield replace(denied.claim("answer-line", match.start(), number, explicit=False), denies=True)
        return
    found = _claim_of(shown, text.text, match.end(), end, cut=text.cut)
    if found is not None:
        if not explicit and re.match(rf"\W*{re.escape(found.text)}[\"')\]}}\s]*\?", text.text[match.end() : end]):
            return  # a question
        if _begins_options(shown, text, number, text.text[match.end() : end]):
            return
        yield found.claim("answer-line", match.start(), number, explicit=explicit)
    elif explicit and number == text.last_line and not _words().said.search(text.text, match.end(), end):
        # `Answer: it depends` as the last word takes back what was said before.
        yield Claim("answer-line", match.start(), number, None, text.text[match.end() : end].strip(), explicit)


def _begins_options(shown: Shown, text: _Text, number: int, said: str) -> bool:
    """Whether a label with its own option is the first of the options, which the next line goes on listing."""
    first = _labelled_option(shown, said)
    following = _labelled_option(shown, text.of(number + 1)) if number + 1 < len(text.lines) else None
    return first is not None and following is not None and first != following


def _below(shown: Shown, text: _Text, number: int, start: int, *, header: bool) -> Iterator[Claim]:
    """What stands alone on the line below a lead-in that nothing follows."""
    following = next(
        (other for other in range(number + 1, min(number + 4, len(text.lines))) if text.of(other).strip()), None
    )
    if following is None:
        if not header:
            yield Claim("answer-line", start, number, None, "", explicit=True)
        return
    named = _lone_answer(shown, text, following)
    if _begins_options(shown, text, following, text.of(following)):
        return
    if named is not None:
        yield named.claim("answer-line", start, following)
    elif not shown.labels and not header:
        line_start, end = text.lines[following]
        said = _in_words(shown, text.text, line_start, end, cut=text.cut)
        if said is not None:
            yield said.claim("answer-line", start, following)


def _boxed(shown: Shown, text: _Text) -> Iterator[Claim]:
    for match in deque(re.finditer(r"\\(?:boxed|fbox)\s*(?:\{|(?=[^\s{]))", text.text), LAST):
        if match[0].endswith("{"):
            end = _closing(text.text, match.end())
            if end is None:
                if text.cut:
                    continue
                end = min(text.lines[text.line_at(match.start())][1], match.end() + MAX_STATED)
        else:
            end = match.end() + 1
        if _REJECTED.match(text.text, end):
            continue
        yield _stated("boxed", shown, text, match.start(), text.text[match.end() : end])


def _closing(text: str, start: int) -> int | None:
    """Where the brace closes that was opened before `start`, on the same line or the next few."""
    depth = 1
    for at in range(start, min(len(text), start + MAX_STATED)):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
    return None


_JSON_KEY: Final = re.compile(
    r"""(["'])(?:final|correct|chosen|selected)?[ _-]?(?:answer|option|choice)(?:[ _-]?(?:letter|label|choice))?\1"""
    r"""\s*:\s*"""
    r"""(?P<value>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\[[^\[\]\n]*\]|[^\s,}\]"']+)""",
    re.IGNORECASE,
)


def _json(shown: Shown, text: _Text) -> Iterator[Claim]:
    for match in deque(_JSON_KEY.finditer(text.text), LAST):
        value = match["value"]
        if _REJECTED.match(text.text, match.end()):
            continue
        if text.cut and not text.text[match.end() :].strip() and value[-1] not in "\"']":
            continue
        if value[0] == "[":
            items = [item.strip().strip("\"'") for item in value[1:-1].split(",") if item.strip()]
            value = items[0] if len(items) == 1 else ""
        else:
            value = value.strip("\"'")
        yield _stated("json", shown, text, match.start(), re.sub(r"\\[ntr]", " ", value).replace("\\", ""))


_TAG: Final = re.compile(
    r"<(?P<tag>final[_ ]?answer|answer)>(?P<inner>.*?)(?:</(?P=tag)>|\Z)", re.IGNORECASE | re.DOTALL
)


def _tags(shown: Shown, text: _Text) -> Iterator[Claim]:
    if text.marked:
        stated = _stated("tag", shown, text, 0, text.text)
        if stated.says is not None:
            yield stated
        return
    if not re.search(r"<(?:final|answer)", text.text, re.IGNORECASE):
        return
    for match in deque(_TAG.finditer(text.text), LAST):
        if text.cut and match.end() == len(text.text) and not text.text.endswith(">"):
            continue
        if _REJECTED.match(text.text, match.end()):
            continue
        stated = _stated("tag", shown, text, match.start(), match["inner"])
        inner = _text_of(match["inner"], cut=False, marked=False)
        if stated.says is not None or not any(list(find(shown, inner)) for find in (_answer_lines, _boxed, _json)):
            yield stated


def _stated(rule: str, shown: Shown, text: _Text, start: int, inner: str) -> Claim:
    """A claim of what stands in a box, a JSON value or a tag, which is a label, an option or both."""
    said = " ".join(plain(inner[:MAX_STATED]).split())
    # A lead-in may stand within, such as \boxed{\text{Answer: B}}.
    lead = _words().explicit.match(said) or _words().said.match(said)
    body = said[lead.end() :] if lead is not None else said
    found = _claim_of(shown, body, 0, len(body), cut=False) or _Said(None, said)
    return found.claim(rule, start, text.line_at(start))


def _lone_answer(shown: Shown, text: _Text, number: int) -> _Said | None:
    """What a line says that is nothing but a label, a label with its own option, or an option."""
    start, end = text.lines[number]
    line = text.text[start:end]
    bare = _bare(re.sub(r"^(?:the\s+)?(?:option|choice|letter)\s+", "", _bare(line), flags=re.IGNORECASE))
    if not bare:
        bare = line.strip()
    label = shown.position_of_label(bare)
    if label is not None:
        return _Said(label, bare)
    option = shown.position_of_text(line)
    if option is not None:
        return _Said(option, _bare(line))
    named = _labelled_option(shown, line)
    return _option_with_label(shown, line) if named is None else _Said(named, shown.labels[named])


def _labelled_option(shown: Shown, line: str) -> int | None:
    """The position of a line that is a label with its own option's text and nothing else."""
    at = len(line) - len(line.lstrip(" \t\"'([{<"))
    match = shown.label.match(line, at)
    if match is None:
        return None
    own = _own_text(shown, match[0], line, match.end(), len(line))
    return shown.position_of_label(match[0]) if own and not line[match.end() + len(own) :].strip(_AROUND) else None


def _last_line(shown: Shown, text: _Text) -> tuple[int, str] | None:
    """The last line, if it is no part of a list and cannot have gone on."""
    number = text.last_line
    if number is None:
        return None
    line = text.of(number)
    if text.cut and not _is_closed(text.raw):
        return None
    others = (other for other in range(len(text.lines)) if other != number and text.of(other).strip())
    for other in list(others)[-50:]:
        if _begins_as_list(shown, text.of(other), line):
            return None
    return number, line


def _is_closed(raw: str) -> bool:
    """Whether a last line that was cut off is complete all the same: something that was opened on it is closed."""
    line = raw.rstrip(" \t")
    if line.endswith("\n"):
        return True
    line = line.rsplit("\n", 1)[-1].strip()
    return re.fullmatch(r"(\*{1,3}|_{1,3}|`|\(|\[|\"|\$|\\\()(?=\S).*\S?(?:\1|\)|\])[.]?", line) is not None


def _begins_as_list(shown: Shown, other: str, last: str) -> bool:
    """Whether another line is a list's, as the last one then may be: another label with a mark, or another option."""
    match = shown.label.match(other.lstrip(" \t\"'([{<"))
    here = shown.label.match(last.lstrip(" \t\"'([{<"))
    if match is not None and (here is None or match[0].casefold() != here[0].casefold()):
        after = other.lstrip(" \t\"'([{<")[match.end() :]
        if re.match(r"\s*$|\s*[).:\]]", after):
            return True
    option = shown.position_of_text(other)
    return option is not None and option != shown.position_of_text(last)


def _label_alone(shown: Shown, text: _Text) -> Iterator[Claim]:
    last = _last_line(shown, text)
    if last is None:
        return
    number, _ = last
    named = _lone_answer(shown, text, number)
    if named is not None and shown.position_of_label(named.text) is not None:
        yield named.claim("label-alone", text.lines[number][0], number)


def _option_alone(shown: Shown, text: _Text) -> Iterator[Claim]:
    last = _last_line(shown, text)
    if last is None:
        return
    number, line = last
    if shown.labels and shown.position_of_label(_bare(line)) is not None:
        return
    option = shown.position_of_text(line)
    if option is not None:
        yield Claim("option-alone", text.lines[number][0], number, option, _bare(line))


_FINDERS: Final = {
    "answer-line": _answer_lines,
    "boxed": _boxed,
    "json": _json,
    "tag": _tags,
    "label-alone": _label_alone,
    "option-alone": _option_alone,
}


def final_answer(
    rules: Sequence[str], answer: str, labels: Sequence[str], options: Sequence[str], *, cut: bool, marked: bool
) -> Claim | None:
    """What an answer states by the rules given; None where it states nothing, or not one thing.

    cut: the answer was cut off at a limit. marked: it stood between markers of its own, which stand for a tag.
    """
    shown = shown_of(tuple(labels), tuple(options))
    text = _text_of(answer, cut=cut, marked=marked)
    stated = [_deciding(list(_FINDERS[rule](shown, text))) for rule in rules]
    return _agreed([claim for claim in stated if claim is not None])


def _deciding(claims: list[Claim]) -> Claim | None:
    """The last claim of a rule, without a position where its line states two answers.

    What is only said after an explicit answer, and differs from it, leaves none, and so does its denial.
    """
    denied = {claim.position for claim in claims if claim.denies}
    claims = [claim for claim in claims if not claim.denies]
    if not claims:
        return None
    last = max(claims, key=lambda claim: claim.start)
    said = {claim.says for claim in claims if claim.line == last.line}
    if not last.explicit:
        said |= {claim.says for claim in claims if claim.explicit}
    return last if len(said) == 1 and last.position not in denied else replace(last, position=None, to_match=False)


def _agreed(stated: list[Claim]) -> Claim | None:
    """The first of claims that agree; None where none is left."""
    formal = [claim for claim in stated if claim.explicit]
    if formal:
        last_formal = max(claim.start for claim in formal)
        stated = [claim for claim in stated if claim.explicit or claim.start > last_formal or _same(claim, formal)]
    if not stated or any(claim.says != stated[0].says for claim in stated):
        return None
    return stated[0] if stated[0].says is not None else None


def _same(claim: Claim, formal: list[Claim]) -> bool:
    return all(claim.says == other.says for other in formal)
