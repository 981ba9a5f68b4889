"""An engine on a server, through the project's own endpoint code."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from registry.settings import Settings
from tests.support.llama_server import MODEL
from workers.endpoint import EndpointEngine, open_endpoint


@contextmanager
def endpoint(folder: Path, url: str, entry: str = "", *, prefix: str = "", **settings: Any) -> Iterator[EndpointEngine]:
    """Yield an engine that uses a server.

    prefix: the path to which its endpoint is limited.
    """
    file = folder / "endpoints.toml"
    file.write_text(f'[served]\nurl_prefix = "{url}{prefix}"\n{entry}')
    engine = open_endpoint(
        f"{url}/v1", MODEL, None, Settings(endpoints=str(file), endpoint_read_seconds=600, **settings)
    )
    try:
        yield engine
    finally:
        engine.close()
