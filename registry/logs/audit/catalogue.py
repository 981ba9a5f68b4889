"""Every kind of finding that an audit can report: number, name, severity, condition, example and remedy.

`docs/findings.md` is generated from this table.
"""

from dataclasses import dataclass
from typing import Final, Literal

from registry.proposals import propose

Severity = Literal["error", "warning", "note"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
"""Severities, the gravest first.

error: a number in the log is wrong or cannot be trusted. warning: it needs a remark wherever it is shown. note: a fact
that a reader should know.
"""


@dataclass(frozen=True)
class Kind:
    """A kind of finding. when: its condition in words. example: how it appears in a log."""

    id: str
    name: str
    severity: Severity
    when: str
    example: str
    remedy: str


_TABLE: Final[tuple[tuple[str, tuple[Kind, ...]], ...]] = (
    (
        "Files",
        (
            Kind(
                "SB101",
                "unreadable-file",
                "error",
                "A file that you named, or that looks like a log, cannot be read, or one of its lines or parts cannot.",
                "`samples.jsonl line 7: not JSON`",
                f"Fetch the file again, or give it in a format that `{propose('evaluations import', '--help')}` lists.",
            ),
            Kind(
                "SB102",
                "unusable-answer",
                "error",
                "A record contradicts itself or lacks a field that its format requires, so that it cannot be scored.",
                "A right option `F` where five options are shown",
                "Repair or remove the record; every number that is computed from the log leaves it out.",
            ),
            Kind(
                "SB103",
                "failed-samples",
                "warning",
                "The log holds prompts that ended in an error and have no answer.",
                "12 of 500 samples of an Inspect log have `error` set",
                "Run these samples again; an accuracy over the others is of another set of questions.",
            ),
            Kind(
                "SB104",
                "answered-twice",
                "warning",
                "A question is in the log more than once under the same id, with the same answer.",
                "`doc_id` 17 on lines 18 and 40",
                "Keep one record of each question: repeated ones count once here, and perhaps twice in the log.",
            ),
            Kind(
                "SB105",
                "answered-twice-differently",
                "error",
                "A question is in the log more than once under the same id, with different answers or scores.",
                "`q17` is answered B on line 18 and D on line 40",
                "Find out which run each record is from, and keep one.",
            ),
            Kind(
                "SB106",
                "id-used-twice",
                "error",
                "One id stands for two different questions.",
                'Two texts under the id `"3"`',
                "Give each question an id of its own, or audit logs that were joined one by one.",
            ),
            Kind(
                "SB107",
                "not-multiple-choice",
                "note",
                "The log asks no multiple-choice questions, or several options of a question are right.",
                "Samples of GSM8K, or of TruthfulQA's `mc2`",
                "Nothing is said of this log; audit the logs of multiple-choice tasks.",
            ),
        ),
    ),
    (
        "Scores",
        (
            Kind(
                "SB201",
                "stated-accuracy-differs",
                "error",
                "The accuracy that the log states is not that of its answers, nor a mean over one of their fields.",
                "`results.json` says 0.712; the 500 answers give 0.644",
                "Publish the accuracy of the answers, or the answers that the stated accuracy was computed from.",
            ),
            Kind(
                "SB202",
                "score-contradicts-answer",
                "error",
                "Single answers are scored right but are wrong by their own key, or the reverse.",
                "Question `q17` is answered B, the key is B, and its score is 0",
                "Score the answers again with their keys; look for keys that were shifted or shuffled.",
            ),
            Kind(
                "SB203",
                "no-better-than-guessing",
                "warning",
                "The 95 % interval of the accuracy includes the chance level, or lies below it.",
                "26.1 % on four options, interval 22.4 to 30.2 %",
                "Do not rank by this log. Check how answers were read before blaming the model.",
            ),
            Kind(
                "SB204",
                "one-letter-does-better",
                "warning",
                "Answering one letter always would reach at least this accuracy.",
                "C is right in 41 % of the questions, the model in 38 %",
                "Shuffle the options of the benchmark, or report accuracy over several orders.",
            ),
            Kind(
                "SB205",
                "few-questions",
                "note",
                "The accuracy rests on fewer than 100 questions.",
                "57 % of 30 questions, interval 39 to 73 %",
                "State the interval, or ask more questions.",
            ),
            Kind(
                "SB206",
                "no-scores",
                "note",
                "The log has no score, neither of its answers nor overall, so nothing confirms how they were read.",
                "Predictions of OpenCompass without `results/` next to them",
                "Take the log with its scores; the finding names the option of the program that writes them.",
            ),
        ),
    ),
    (
        "Reading answers",
        (
            Kind(
                "SB301",
                "answers-lost",
                "error",
                "At least 1 % of the answers, and at least two, count as missing although other rules read one.",
                "`The answer is (C).` scored as no answer",
                "Read the texts again with rules that fit the model's way of answering (protocols read, final-answer).",
            ),
            Kind(
                "SB302",
                "answers-misread",
                "error",
                "At least 2 % of the answers, and at least two, were recorded as another option than the text states.",
                "`A looks right, but the answer is B.` recorded as A",
                "Read the texts again; the difference in accuracy is the reader's and not the model's.",
            ),
            Kind(
                "SB303",
                "thought-read",
                "error",
                "An answer was taken from the model's thought, not from the answer after it.",
                "`<think>Maybe A. No: B.</think> B` recorded as A",
                "Set the thought aside before reading: cut the text at the last end marker.",
            ),
            Kind(
                "SB304",
                "unread-answers",
                "warning",
                "More than 5 % of the answers hold no option that any rule finds, or the log gives none.",
                "`I cannot say.` in 9 % of the samples",
                "Show the share next to the accuracy; unread is not the same as wrong.",
            ),
            Kind(
                "SB305",
                "unfinished-answers",
                "warning",
                "More than 1 % of the texts end before an answer: the thought did not end, or a limit was reached.",
                "`finish_reason: length` in 22 % of the samples",
                "Ask these prompts again with more tokens; until then give the share with the accuracy.",
            ),
            Kind(
                "SB306",
                "empty-answers",
                "warning",
                "More than 1 % of the texts are empty.",
                '`"completion": ""`',
                "Look for stop sequences that end the answer at once, and for failed requests.",
            ),
            Kind(
                "SB307",
                "refused-answers",
                "note",
                "Some prompts were refused by the provider's filter.",
                "`stop_reason: content_filter`",
                "Report refusals by themselves.",
            ),
            Kind(
                "SB308",
                "rules-disagree",
                "warning",
                "More than 5 % of the texts read differently by the rules `final-answer` and `select-letter`.",
                "`Answer: C` is followed by a remark about A",
                "Say with the accuracy which rules read the answers.",
            ),
        ),
    ),
    (
        "Positions",
        (
            Kind(
                "SB401",
                "keys-uneven",
                "warning",
                "The right options are not spread evenly over the positions (chi-squared test, p < 0.001, and one "
                "position holds at least 10 points more than its share).",
                "B is right in 45 % of the questions",
                "Shuffle the options, or compare with the accuracy of always answering that letter.",
            ),
            Kind(
                "SB402",
                "keys-at-one-position",
                "warning",
                "The right option always stands at the same position.",
                "A is right in all 500 questions",
                "Shuffle the options; TruthfulQA is published with the right one first.",
            ),
            Kind(
                "SB403",
                "answers-uneven",
                "warning",
                "The model chooses one position at least 10 points more, or less, often than it is right there "
                "(p < 0.001, corrected for the number of positions).",
                "A is chosen in 61 % and right in 25 %",
                "Report accuracy over several orders of the options.",
            ),
        ),
    ),
    (
        "Questions",
        (
            Kind(
                "SB501",
                "duplicate-questions",
                "warning",
                "The same question with the same options stands under two ids.",
                "`q17` and `q940` have equal texts",
                "Keep one: repeated questions count twice, and intervals are too narrow.",
            ),
            Kind(
                "SB502",
                "near-duplicate-questions",
                "note",
                "Two questions have nearly the same words, the same numbers and the same negations.",
                "`The capital of France is` and `What is the capital of France`",
                "Look at the pairs; resample them together if they are one question.",
            ),
            Kind(
                "SB503",
                "contradictory-keys",
                "error",
                "The same question with the same options has different right options.",
                "`q17` calls Paris right, `q940` Lyon",
                "Correct one of the keys, or leave both questions out.",
            ),
            Kind(
                "SB504",
                "repeated-options",
                "warning",
                "A question offers the same text twice.",
                "`bent` at A and at B",
                "If one of the two is the key, the other is right, too: leave the question out, or accept both.",
            ),
            Kind(
                "SB505",
                "empty-question-or-option",
                "error",
                "A question or an option has no text.",
                'Option C is `""`',
                "Repair the data set; look for cells that a reader turned into nothing.",
            ),
            Kind(
                "SB506",
                "keys-differ-between-logs",
                "warning",
                "Two logs score the same question by different keys.",
                "`q17`: B in the log of one model, C in the other's",
                "Compare models on one version of the benchmark.",
            ),
        ),
    ),
    (
        "Prompts",
        (
            Kind(
                "SB601",
                "labels-missing-in-instruction",
                "error",
                "The instruction names fewer labels than options are shown.",
                "`one of ABCD` above ten options",
                "Make the instruction from the number of options.",
            ),
            Kind(
                "SB602",
                "labels-beyond-options",
                "warning",
                "The instruction names more labels than options are shown.",
                "`one of A to J` above four options",
                "Make the instruction from the number of options; if few prompts differ, their ends may be cut off.",
            ),
            Kind(
                "SB603",
                "question-among-examples",
                "error",
                "The question that is asked also stands among the few-shot examples.",
                "Example 2 of `q17` is `q17` with its answer",
                "Leave the question out of its own examples, or take them from another split.",
            ),
            Kind(
                "SB604",
                "truncated-prompt",
                "error",
                "The prompt lacks part of the question, lacks options that others list, or ends otherwise than all "
                "others do.",
                "Options A to C of five, and no `Answer:`",
                "Raise the limit of the context, or use fewer examples.",
            ),
            Kind(
                "SB605",
                "doubled-begin-token",
                "error",
                "A begin-of-text token or a turn's opening stands twice in a row.",
                "`<s><s>[INST]`",
                "Let either the template or the tokenizer add it.",
            ),
            Kind(
                "SB606",
                "unfilled-template",
                "error",
                "A placeholder of a template was sent to the model.",
                "`Question: {{question}}`",
                "Fill the template; check the name of the field.",
            ),
            Kind(
                "SB607",
                "answer-in-prompt",
                "error",
                "The prompt already ends with the right label.",
                "`Answer: B` at the end of the prompt, and B is right",
                "Remove the target from the prompt.",
            ),
        ),
    ),
    (
        "Benchmarks",
        (
            Kind(
                "SB701",
                "undeclared-subset",
                "warning",
                "The questions are some of a known benchmark, and nothing in the log says so.",
                "612 of MMLU's 14,042 questions under the task name `mmlu`",
                "Name the subset wherever the accuracy is shown, or ask all questions.",
            ),
            Kind(
                "SB702",
                "key-differs-from-benchmark",
                "warning",
                "A question of a known benchmark has another right option than the published one.",
                "MMLU's key is C, the log's B",
                "Say which version or correction of the benchmark was asked.",
            ),
        ),
    ),
    (
        "Orders, repeats and several logs",
        (
            Kind(
                "SB801",
                "order-changes-answers",
                "note",
                "The same questions were asked in several orders, and answers change with the order.",
                "Right in one order 61 %, in all four 38 %",
                "Report worst accuracy or the fluctuation rate next to the accuracy.",
            ),
            Kind(
                "SB802",
                "repeats-differ",
                "note",
                "The same prompts were asked again, and answers differ.",
                "9 % of the pairs of repeats differ",
                "Do not read differences of this size as effects of the order or of the model.",
            ),
            Kind(
                "SB803",
                "not-told-apart",
                "note",
                "Two models differ by less than these questions can show.",
                "61.2 and 62.0 % on 500 questions; 3.9 points could be seen",
                "Do not rank one above the other on this log.",
            ),
            Kind(
                "SB804",
                "different-questions",
                "warning",
                "Two logs of one task do not cover the same questions.",
                "500 and 480 questions, 470 in common",
                "Compare over the questions that both have.",
            ),
            Kind(
                "SB805",
                "versions-flip",
                "note",
                "Two logs of one model give different answers to the same questions.",
                "Accuracy 61 % both times, 14 % of the questions right in only one",
                "Name the version or the run with each accuracy.",
            ),
            Kind(
                "SB806",
                "same-answers",
                "warning",
                "Logs of two models agree in at least 99 % of the answers, wrong ones included; or two logs of one "
                "model agree in all of them.",
                "1,998 of 2,000 answers equal, 700 of them wrong",
                "Check that one file was not copied under the other's name, or given twice.",
            ),
        ),
    ),
)

CHAPTERS: Final = _TABLE
KINDS: Final = {kind.name: kind for _, kinds in _TABLE for kind in kinds}
assert len({kind.id for kind in KINDS.values()}) == len(KINDS) == sum(len(kinds) for _, kinds in _TABLE)


@dataclass(frozen=True)
class Finding:
    """A finding in a log, or in several.

    count: affected places, out of `of` places checked, both 0 if it is about the log as a whole. places: the first few.
    """

    kind: Kind
    log: str
    detail: str
    count: int = 0
    of: int = 0
    places: tuple[str, ...] = ()

    @property
    def severity(self) -> Severity:
        """Return the severity of the finding's kind."""
        return self.kind.severity

    def document(self) -> dict[str, object]:
        """Return the JSON document."""
        return {
            "id": self.kind.id,
            "name": self.kind.name,
            "severity": self.severity,
            "log": self.log,
            "detail": self.detail,
            "count": self.count,
            "of": self.of,
            "places": list(self.places),
            "remedy": self.kind.remedy,
        }
