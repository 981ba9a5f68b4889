"""Score tasks of lm-evaluation-harness with a model, as the harness does it: `harness_task_scores.py FOLDER MODEL TASK…`.

Runs in .venv-peer (`make peer`), apart from the project, whose code it does not import.

stdout, one JSON document: {TASK: {"acc": 0.25, "chosen": [2, 0, …]}}, chosen by document in their order.
"""

import json
import os
import sys
from contextlib import redirect_stdout

# The libraries read this when they are imported.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"


def main() -> None:
    folder, model, *tasks = sys.argv[1:]
    with redirect_stdout(sys.stderr):
        from lm_eval import simple_evaluate
        from lm_eval.tasks import TaskManager

        results = simple_evaluate(
            model="hf",
            model_args={"pretrained": model, "dtype": "float32"},
            device="cpu",
            tasks=tasks,
            num_fewshot=0,
            bootstrap_iters=0,
            task_manager=TaskManager(include_path=folder, include_defaults=False),
        )
    scores = {}
    for task in tasks:
        samples = sorted(results["samples"][task], key=lambda sample: sample["doc_id"])
        logprobs = [[float(answer[0]) for answer in sample["filtered_resps"]] for sample in samples]
        scores[task] = {
            "acc": results["results"][task]["acc,none"],
            "chosen": [values.index(max(values)) for values in logprobs],
        }
    print(json.dumps(scores))


if __name__ == "__main__":
    main()
