"""Repeated prompts of a file: a repeat with the same answer is ignored, one with another answer is refused."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from registry.logs.record import Recorded

Reader = Callable[[], Iterator[Recorded]]


@dataclass
class Prompts:
    """The prompts of a file.

    answers: question id → variant → a number that equal answers share. repeated: (question id, variant) of repeated
    prompts.
    """

    answers: dict[int, dict[int, int]] = field(default_factory=dict)
    repeated: set[tuple[int, int]] = field(default_factory=set)

    def add(self, recorded: Recorded) -> bool:
        """Add a prompt and return whether it is new.

        Raises IngestError if it is repeated with another answer or score.
        """
        of_question = self.answers.setdefault(recorded.question.question_id, {})
        number = _hash_answer(recorded)
        before = of_question.get(recorded.variant)
        if before is None:
            of_question[recorded.variant] = number
            return True
        if before != number:
            recorded.place.reject(
                f"question {recorded.question.external_id} variant {recorded.variant} is already on an earlier line, "
                "with another answer, score or order; keep one line for each prompt"
            )
        self.repeated.add((recorded.question.question_id, recorded.variant))
        return False

    def variants(self, question_id: int) -> set[int]:
        """Return the variants of a question that are in the file."""
        return set(self.answers.get(question_id, ()))

    def once(self, reader: Reader) -> Reader:
        """Return a reader that leaves out repeated answers."""
        if not self.repeated:
            return reader

        def read() -> Iterator[Recorded]:
            seen: set[tuple[int, int]] = set()
            for recorded in reader():
                key = recorded.question.question_id, recorded.variant
                if key in self.repeated:
                    if key in seen:
                        continue
                    seen.add(key)
                yield recorded

        return read


def _hash_answer(recorded: Recorded) -> int:
    """Return a hash of the answer, its score and the order shown."""
    answer = recorded.position if recorded.answer is None else recorded.answer.positions
    key = None if recorded.key is None else recorded.key.positions
    return hash((recorded.order, answer, key, recorded.stated, recorded.weights, recorded.logprobs))
