"""A provider of OpenID Connect for tests, with real keys and tokens but without a socket.

A test can make it send wrong answers.
"""

import base64
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx2
import requests
from joserfc import jwt
from joserfc.jwk import ECKey
from requests.adapters import BaseAdapter

ISSUER = "https://id.example.org/realms/main"
CLIENT, SECRET = "board", "s3cret of the client"
SITE = "https://board.example.org"

Forge = Callable[[dict[str, Any], "StandIn"], str]
"""Makes an ID token from the claims that it should have."""


@cache
def key(kid: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})


def signed(claims: dict[str, Any], kid: str = "one", header: dict[str, Any] | None = None) -> str:
    return jwt.encode({"alg": "ES256", "kid": kid} if header is None else header, claims, key(kid))


def encode(part: Any) -> str:
    return (
        base64.urlsafe_b64encode(part if isinstance(part, bytes) else json.dumps(part).encode()).rstrip(b"=").decode()
    )


@dataclass
class StandIn:
    """A stand-in provider.

    claims: claims of the person who signs in next.
    more: further fields of the discovery document.
    kids: ids of its keys.
    forge: makes the ID token in place of the correct signature.
    answers: wrong answers by path.
    asked: paths of the received requests.
    codes: issued and unused codes, with their requests.
    """

    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "248", "preferred_username": "ada"})
    more: dict[str, Any] = field(default_factory=dict)
    kids: list[str] = field(default_factory=lambda: ["one"])
    forge: Forge = lambda claims, _: signed(claims)
    answers: dict[str, Callable[[], httpx2.Response]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    given: int = 0

    def authorize(self, url: str) -> dict[str, str]:
        """Return the parameters of the callback after somebody signs in at the provider."""
        request = dict(parse_qsl(urlsplit(url).query))
        assert url.startswith(f"{ISSUER}/authorize?")
        assert (request["response_type"], request["client_id"]) == ("code", CLIENT)
        assert request["redirect_uri"] == f"{SITE}/sign-in/provider/callback"
        assert request["code_challenge_method"] == "S256"
        self.given += 1
        self.codes[f"code-{self.given}"] = request
        return {"code": f"code-{self.given}", "state": request["state"], "iss": ISSUER}

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request of the website."""
        path = str(request.url).removeprefix(ISSUER)
        self.asked.append(path)
        if path in self.answers:
            return self.answers[path]()
        match path:
            case "/.well-known/openid-configuration":
                return httpx2.Response(200, json=self._discovery())
            case "/keys":
                return httpx2.Response(200, json={"keys": [key(kid).as_dict(private=False) for kid in self.kids]})
            case "/token":
                return self._token(request)
        return httpx2.Response(404)

    def _discovery(self) -> dict[str, Any]:
        return {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
            "end_session_endpoint": f"{ISSUER}/leave",
            "authorization_response_iss_parameter_supported": True,
            **self.more,
        }

    def _token(self, request: httpx2.Request) -> httpx2.Response:
        form = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
        wanted = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        assert request.headers["Authorization"] == f"Basic {wanted}"
        began = self.codes.pop(form["code"], None)
        challenge = encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        if began is None or began["code_challenge"] != challenge or form["redirect_uri"] != began["redirect_uri"]:
            return httpx2.Response(400, json={"error": "invalid_grant", "error_description": "<script>"})
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": began["nonce"], **self.claims}
        token = self.forge({name: value for name, value in claims.items() if value is not None}, self)
        return httpx2.Response(200, json={"access_token": "opaque", "token_type": "Bearer", "id_token": token})


class Adapter(BaseAdapter):
    """An adapter that passes the website's requests to a stand-in, without a socket."""

    def __init__(self, stand_in: StandIn) -> None:
        super().__init__()
        self.stand_in = stand_in

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        body = request.body or b""
        sent = httpx2.Request(
            str(request.method),
            str(request.url),
            headers=dict(request.headers),
            content=body if isinstance(body, bytes) else body.encode(),
        )
        try:
            answer = self.stand_in(sent)
        except httpx2.ConnectError as error:
            raise requests.ConnectionError(str(error)) from None
        response = requests.Response()
        response.status_code, response.url, response.request = answer.status_code, str(request.url), request
        response.headers.update(answer.headers)
        response._content = answer.content
        return response

    def close(self) -> None:
        """Do nothing, since nothing is open."""
