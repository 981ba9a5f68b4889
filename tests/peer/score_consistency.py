"""SCORE's consistency rates as lm-evaluation-harness computes them: `score_consistency.py TASKS < LINES`.

Runs in .venv-peer (`make peer`), apart from the project, whose code it does not import. TASKS: mmlu_pro or agi_eval.

stdin: a line of JSON for each answer: {"kind": "prompts" or "options", "doc": {…}, "text": "…"}
stdout, one JSON document: {"prompts": 0.7, "options": 0.5}
"""

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import lm_eval


def harness_module(tasks: str) -> Any:
    """Return the module that the tasks' YAML uses, loaded by its path; it imports `utils` from its folder."""
    score = Path(lm_eval.__file__).parent / "tasks" / "score"
    sys.path[:0] = [str(score), str(score.parent)]
    path = next((score / tasks).glob("utils_*.py"))
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    harness = harness_module(sys.argv[1])
    answers: dict[str, list[Any]] = {"prompts": [], "options": []}
    for line in sys.stdin:
        answer = json.loads(line)
        if answer["kind"] == "prompts":
            rates = harness.prompt_robustness_process_results(answer["doc"], [answer["text"]])["consistency_rate"]
        else:
            rates = harness.option_order_robustness_process_results(answer["doc"], [answer["text"]])
            rates = rates["options_consistency_rate"]
        answers[answer["kind"]].append(rates)
    print(
        json.dumps(
            {
                "prompts": harness.utils.prompt_consistency_rate(answers["prompts"]),
                "options": harness.utils.options_consistency_rate(answers["options"], harness.LABELS),
            }
        )
    )


if __name__ == "__main__":
    main()
