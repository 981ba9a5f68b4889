"""Settings that keep the model libraries' notes out of the worker's log."""

import logging
import os


def quiet_libraries() -> None:
    """Keep progress bars and notes of the model libraries out of the worker's log."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TQDM_DISABLE", "1")
    logging.getLogger("torchao").setLevel(logging.ERROR)
    logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
