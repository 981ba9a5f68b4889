"""The website as a client of an OpenID Connect provider: authorisation code flow with PKCE, state and nonce.

Nothing that the provider or the browser sends is believed before it is checked: the state is this browser's, the code
comes from this issuer, and the ID token is signed with a key of the provider, for this client and this sign-in. Tokens
are read once and neither kept nor logged.
"""

import hmac
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import httpx2
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.client import OAuth2Client
from authlib.oidc.core import CodeIDToken
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key

from registry.errors import AuthenticationError, ShuffleboardError, UsageError
from registry.people.identities import Identity, check_subject
from registry.people.role_rules import RoleRules, load_role_rules
from registry.settings import Settings
from registry.untrusted import RefusedError, check, decode_answer

CALLBACK: Final = "/sign-in/provider/callback"
ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
"""How an ID token may be signed: with the provider's private key, never with a secret, never not at all."""
MIN_RSA_CHARACTERS: Final = 342
"""Of an RSA key's modulus in base64url: 2,048 bits."""
LEEWAY_S: Final = 60
"""How far the provider's clock may differ from this host's."""
FLOW_S: Final = 600
"""How long a person may take at the provider."""
KEPT_S: Final = 3600
"""How long the provider's description of itself, and its keys, are used before they are fetched again."""
RENEWED_S: Final = 60
"""Keys are fetched for a token with an unknown key at most this often."""
SPARED_S: Final = 10
"""How long a provider that did not answer is not asked again: people who wait for it hold the website's threads."""
CONNECT_S: Final = 5.0
SILENT_S: Final = 10.0
WHOLE_S: Final = 20.0
"""How long an answer of the provider may take from its first byte to its last."""
MAX_ANSWER: Final = 256 * 1024
"""Bytes of an answer of the provider."""
MAX_TOKEN: Final = 64 * 1024
"""Characters of an ID token."""
_PUBLIC: Final = ("RSA", "EC", "OKP")
"""Kinds of keys that have a public half."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class ProviderUnavailableError(ShuffleboardError):
    """The provider does not answer, or not as a provider of OpenID Connect does."""


@dataclass(frozen=True)
class Configuration:
    """What the settings say of the provider.

    callback: where it sends browsers back to. home: where it sends them after signing out.
    """

    issuer: str
    name: str
    client_id: str
    client_secret: str
    scopes: str
    callback: str
    home: str


@dataclass(frozen=True)
class Flow:
    """One sign-in on its way: secrets of one browser, kept in its cookie until it comes back."""

    state: str
    nonce: str
    verifier: str
    begun: float

    @classmethod
    def begin(cls) -> "Flow":
        """A new one: 256 random bits for each of its secrets."""
        return cls(secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(32), time.time())


def provider_of(settings: Settings) -> "Provider | None":
    """The provider of the settings; None where there is no single sign-on. Asks it nothing yet.

    Raises UsageError that names the setting that is missing or wrong.
    """
    needed = {name: getattr(settings, name) for name in ("oidc_issuer", "oidc_client_id", "oidc_roles")}
    if not any(needed.values()):
        if not settings.password_sign_in:
            raise UsageError(
                "SHUFFLEBOARD_PASSWORD_SIGN_IN=false: nobody could sign in; set SHUFFLEBOARD_OIDC_ISSUER, or unset it"
            )
        if settings.oidc_client_secret:
            raise UsageError("SHUFFLEBOARD_OIDC_CLIENT_SECRET is set without SHUFFLEBOARD_OIDC_ISSUER; set that, too")
        return None
    missing = [f"SHUFFLEBOARD_{name.upper()}" for name, value in needed.items() if not value]
    if not settings.public_url:
        missing.append("SHUFFLEBOARD_PUBLIC_URL")
    if missing:
        raise UsageError(f"single sign-on also needs {', '.join(missing)}; set it, or unset SHUFFLEBOARD_OIDC_…")
    base = settings.public_url.rstrip("/")
    _check_url("SHUFFLEBOARD_OIDC_ISSUER", settings.oidc_issuer)
    _check_url("SHUFFLEBOARD_PUBLIC_URL", base)
    if "openid" not in settings.oidc_scopes.split():
        raise UsageError(f"SHUFFLEBOARD_OIDC_SCOPES={settings.oidc_scopes!r}: openid is not among them; add it")
    configuration = Configuration(
        settings.oidc_issuer,
        settings.oidc_name,
        settings.oidc_client_id,
        settings.oidc_client_secret,
        " ".join(settings.oidc_scopes.split()),
        f"{base}{CALLBACK}",
        f"{base}/",
    )
    return Provider(configuration, load_role_rules(settings.oidc_roles))


def _check_url(setting: str, url: str) -> None:
    if not _is_sound(url) or urlsplit(url).query:
        raise UsageError(
            f"{setting}={url!r}: not an https URL without a query; give one such as https://id.example.org "
            "(http only on this machine: http://127.0.0.1)"
        )


def _is_sound(url: Any) -> bool:
    """Whether it is a URL to send secrets to: https, or http that stays on this machine."""
    if not isinstance(url, str) or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return False
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    if not parts.hostname or "@" in parts.netloc or "#" in url:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


class Provider:
    """A provider, and what it said of itself lately. Safe between threads.

    rules: which of its claims give which role. transport: what requests to it go through; None: the network.
    clock: seconds that never go back.
    """

    def __init__(self, configuration: Configuration, rules: RoleRules) -> None:
        self.configuration = configuration
        self.rules = rules
        self.transport: httpx2.BaseTransport | None = None
        self.clock = time.monotonic
        self._lock = threading.Lock()
        self._metadata: dict[str, Any] = {}
        self._metadata_at = float("-inf")
        self._keys: list[Key] = []
        self._keys_at = float("-inf")
        self._failed_at = float("-inf")

    # What the browser is sent to

    def authorization_url(self, flow: Flow) -> str:
        """Where a person signs in. Raises ProviderUnavailableError."""
        url, _ = self._client().create_authorization_url(
            self._endpoint("authorization_endpoint"),
            state=flow.state,
            nonce=flow.nonce,
            code_verifier=flow.verifier,
        )
        return str(url)

    def sign_out_url(self) -> str | None:
        """Where a person signs out of the provider; None where it has no such place, or does not answer."""
        try:
            endpoint = self._describe().get("end_session_endpoint")
        except ProviderUnavailableError:
            return None
        if not _is_sound(endpoint):
            return None
        # No id_token_hint: no token is kept. The provider asks the person instead.
        query = {"client_id": self.configuration.client_id, "post_logout_redirect_uri": self.configuration.home}
        return f"{endpoint}{'&' if '?' in str(endpoint) else '?'}{urlencode(query)}"

    def faults(self) -> list[str]:
        """Why nobody could sign in through it, by what it says of itself now. Raises ProviderUnavailableError."""
        with self._lock:
            document = self._described()
            for name in ("authorization_endpoint", "token_endpoint"):
                self._endpoint_of(document, name)
            self._fetch_keys(self.clock())
            keys = self._keys
        found = []
        if not keys:
            found.append("publishes no key that an ID token could be verified with")
        algorithms = document.get("id_token_signing_alg_values_supported", ALGORITHMS)
        if isinstance(algorithms, list | tuple) and not set(ALGORITHMS) & set(map(str, algorithms)):
            found.append("signs ID tokens in none of the accepted ways, such as RS256 or ES256")
        challenges = document.get("code_challenge_methods_supported", ["S256"])
        if isinstance(challenges, list) and "S256" not in challenges:
            found.append("does not take the code challenge S256 (PKCE)")
        return found

    # What the browser comes back with

    def person(self, asked: Mapping[str, Sequence[str]], flow: Flow | None) -> tuple[Identity, dict[str, Any]]:
        """Whom the provider has signed in, and what its ID token claims of them.

        asked: the query string of the callback. flow: what this browser set out with; None: nothing.
        Raises AuthenticationError for anything that is not the provider's answer to this browser, and
        ProviderUnavailableError.
        """
        arguments = {key: values[0] for key, values in asked.items() if len(values) == 1}
        # First of all, before anything that the address says is used.
        if flow is None or not hmac.compare_digest(arguments.get("state", "").encode(), flow.state.encode()):
            raise self._refused("its answer does not belong to a sign-in that this browser began (state)")
        if len(arguments) < len(asked):
            raise self._refused("its answer says something twice")
        if not 0 <= time.time() - flow.begun <= FLOW_S:
            raise self._refused(f"it took longer than {FLOW_S // 60} minutes")
        issuer = arguments.get("iss")
        described = self._describe()
        if issuer is None and described.get("authorization_response_iss_parameter_supported") is True:
            raise self._refused("its answer does not say from which issuer it is (iss)")
        if issuer is not None and issuer != self.configuration.issuer:
            raise self._refused("its answer is from another issuer (iss)")
        if "error" in arguments:
            raise self._refused(f"it says {_code(arguments['error'])}")
        if not arguments.get("code"):
            raise self._refused("its answer has no code")
        token = self._exchange(arguments["code"], flow)
        claims = self._verified(token, flow)
        return Identity(self.configuration.issuer, check_subject(claims["sub"])), claims

    def _exchange(self, code: str, flow: Flow) -> Mapping[str, Any]:
        """The token endpoint's answer to a code."""
        endpoint = self._endpoint("token_endpoint")
        try:
            answer = self._client().fetch_token(
                endpoint, grant_type="authorization_code", code=code, code_verifier=flow.verifier
            )
        except OAuth2Error as error:
            raise self._refused(f"it does not accept the code ({_code(error.error)})") from None
        except (httpx2.HTTPError, ValueError, RecursionError):
            raise self._unavailable(endpoint, "no JSON document of a token endpoint") from None
        return dict(answer)

    def _verified(self, answer: Mapping[str, Any], flow: Flow) -> dict[str, Any]:
        """The claims of the ID token, after everything about it was checked."""
        token, access = answer.get("id_token"), answer.get("access_token")
        if not isinstance(token, str) or not token:
            raise self._refused("it sends no ID token")
        if len(token) > MAX_TOKEN:
            raise self._refused(f"its ID token has more than {MAX_TOKEN:,} characters")
        try:
            key = self._key(jws.extract_compact(token.encode("ascii")).headers())
            decoded = jwt.decode(token, key, algorithms=ALGORITHMS)
            check(decoded.claims, "the ID token")
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                options={
                    "iss": {"essential": True, "value": self.configuration.issuer},
                    "aud": {"essential": True, "value": self.configuration.client_id},
                },
                params={
                    "nonce": flow.nonce,
                    "client_id": self.configuration.client_id,
                    "access_token": access if isinstance(access, str) else None,
                },
            )
            claims.validate(leeway=LEEWAY_S)
            check_subject(claims["sub"])
        except JoseError as error:
            raise self._refused(f"its ID token is not valid ({_code(error.error)}: {error.description[:80]})") from None
        except (ValueError, TypeError, KeyError, RecursionError, RefusedError, UsageError):
            raise self._refused("its ID token is malformed") from None
        return dict(claims)

    def _refused(self, reason: str) -> AuthenticationError:
        return AuthenticationError(f"{self.configuration.name} has not signed you in: {reason}; start again")

    # Keys

    def _key(self, header: Mapping[str, Any]) -> Key:
        """The provider's key that a token names; the only one, where it names none."""
        kid, algorithm = header.get("kid"), header.get("alg")
        if algorithm not in ALGORITHMS:
            raise self._refused("its ID token is not signed in a way that is accepted (alg)")
        with self._lock:
            now = self.clock()
            if now - self._keys_at > KEPT_S:
                self._fetch_keys(now)
            found = self._matching(kid)
            if found is None and now - self._keys_at > RENEWED_S:
                self._fetch_keys(now)
                found = self._matching(kid)
        if found is None:
            raise self._refused("its ID token is signed with a key that it does not publish (kid)")
        return found

    def _matching(self, kid: Any) -> Key | None:
        known = self._keys if kid is None else [key for key in self._keys if key.kid == kid]
        return known[0] if len(known) == 1 else None

    def _fetch_keys(self, now: float) -> None:
        url = self._endpoint_of(self._described(), "jwks_uri")
        listed = self._get(url).get("keys")
        if not isinstance(listed, list):
            raise self._unavailable(url, "no set of keys")
        self._keys = [key for one in listed if (key := _public_key(one)) is not None]
        self._keys_at = now

    # What the provider says of itself

    def _describe(self) -> dict[str, Any]:
        with self._lock:
            return self._described()

    def _described(self) -> dict[str, Any]:
        """The discovery document, while the lock is held."""
        now = self.clock()
        if now - self._metadata_at > KEPT_S:
            url = f"{self.configuration.issuer.rstrip('/')}/.well-known/openid-configuration"
            document = self._get(url)
            # A document of another issuer would let that issuer sign people in here.
            if document.get("issuer") != self.configuration.issuer:
                raise self._unavailable(url, f"another issuer than {self.configuration.issuer}; correct the setting")
            self._metadata, self._metadata_at = document, now
        return self._metadata

    def _endpoint(self, name: str) -> str:
        return self._endpoint_of(self._describe(), name)

    def _endpoint_of(self, document: Mapping[str, Any], name: str) -> str:
        url = document.get(name)
        if not _is_sound(url):
            raise self._unavailable(self.configuration.issuer, f"no https address as its {name}")
        return str(url)

    # Requests

    def _client(self) -> Any:
        """Authlib's client, for one flow."""
        configuration = self.configuration
        methods = self._describe().get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        method = "none"
        if configuration.client_secret:
            method = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
        return OAuth2Client(
            _Session(self),
            client_id=configuration.client_id,
            client_secret=configuration.client_secret or None,
            token_endpoint_auth_method=method,
            scope=configuration.scopes,
            redirect_uri=configuration.callback,
            code_challenge_method="S256",
        )

    def _get(self, url: str) -> dict[str, Any]:
        """A document of the provider's, while the lock is held."""
        if self.clock() - self._failed_at < SPARED_S:
            raise self._unavailable(url, f"did not answer within the last {SPARED_S} s")
        try:
            return self._got(url)
        except ProviderUnavailableError:
            self._failed_at = self.clock()
            raise

    def _got(self, url: str) -> dict[str, Any]:
        response = self.send("GET", url, {"Accept": "application/json"}, None)
        try:
            document = decode_answer(response.content) if response.status_code == httpx2.codes.OK else None
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise self._unavailable(url, f"status {response.status_code} and no JSON document")
        return document

    def send(self, method: str, url: str, headers: Mapping[str, str], body: str | None) -> httpx2.Response:
        """The provider's answer, whole. Follows no redirect, and takes neither forever nor more than MAX_ANSWER.

        Raises ProviderUnavailableError.
        """
        received, started = bytearray(), time.monotonic()
        timeout = httpx2.Timeout(SILENT_S, connect=CONNECT_S)
        try:
            with (
                httpx2.Client(
                    transport=self.transport, timeout=timeout, follow_redirects=False, trust_env=self.transport is None
                ) as client,
                client.stream(method, url, headers=dict(headers), content=body) as response,
            ):
                for piece in response.iter_bytes():
                    received += piece
                    if len(received) > MAX_ANSWER:
                        raise self._unavailable(url, f"more than {MAX_ANSWER:,} bytes")
                    if time.monotonic() - started > WHOLE_S:
                        raise self._unavailable(url, f"not all of its answer within {WHOLE_S:g} s")
                return httpx2.Response(response.status_code, content=bytes(received), request=response.request)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._unavailable(url, f"no answer ({type(error).__name__})") from None

    def _unavailable(self, url: str, found: str) -> ProviderUnavailableError:
        return ProviderUnavailableError(f"{url}: {found}")


class _Session:
    """What Authlib sends its requests by."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    def post(self, url: str, *, data: Mapping[str, str], headers: Mapping[str, str], auth: Any) -> httpx2.Response:
        """Sends a form with the client's credentials."""
        url, headers, body = auth.prepare("POST", url, dict(headers), urlencode(data))
        return self._provider.send("POST", url, headers, body)


def _public_key(document: Any) -> Key | None:
    """A key that may verify ID tokens; None for a secret, one for encryption, one too short, one that is unreadable."""
    if not isinstance(document, dict) or document.get("use", "sig") != "sig":
        return None
    if document.get("kty") not in _PUBLIC:
        return None
    if document["kty"] == "RSA" and len(str(document.get("n"))) < MIN_RSA_CHARACTERS:
        return None
    try:
        return JWKRegistry.import_key(document)
    except (JoseError, ValueError, TypeError, KeyError):
        return None


def _code(text: Any) -> str:
    """An error code as OAuth writes them, and nothing else that somebody put in its place."""
    code = str(text)
    return code if code.isascii() and code.replace("_", "").isalnum() and len(code) <= 40 else "an error"
