"""Models of a hub: what its refusals come out as."""

import httpx2
import pytest
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

from registry.errors import ModelError
from workers.artifacts import resolve_folder


@pytest.mark.parametrize("refusal", [GatedRepoError, RepositoryNotFoundError])
def test_a_model_that_the_hub_hides_asks_for_a_token(
    refusal: type[RepositoryNotFoundError], monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, refusal)
    with pytest.raises(ModelError, match=r"^owner/hidden: .*private or gated model.* HF_TOKEN"):
        resolve_folder("owner/hidden", None)


def test_a_revision_that_the_hub_lacks_is_said_as_the_hub_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, RevisionNotFoundError)
    with pytest.raises(ModelError, match=r"^owner/hidden: cannot be fetched from the hub \(as the hub says\)"):
        resolve_folder("owner/hidden", "v9")


def refuse(monkeypatch: pytest.MonkeyPatch, refusal: type[Exception]) -> None:
    """Has the hub answer every request with an error."""

    def snapshot_download(*_names: str, **_options: object) -> None:
        response = httpx2.Response(401, request=httpx2.Request("GET", "https://hub.example.org/"))
        raise refusal("as the hub says", response=response)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
