"""The website as a client of an OpenID Connect provider: authorisation code flow with PKCE, state and nonce.

Nothing from the provider or the browser is trusted before it is checked: the state is this browser's, the code is from
this issuer, and the ID token is signed with a key of the provider, for this client and this sign-in. Tokens are read
once and neither stored nor logged.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from authlib.integrations.base_client.errors import MismatchingStateError, OAuthError
from authlib.integrations.flask_client import FlaskIntegration, FlaskOAuth2App
from authlib.integrations.requests_client import OAuth2Session
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry
from requests.adapters import BaseAdapter
from requests.exceptions import RequestException

from registry.errors import AuthenticationError, ShuffleboardError, UsageError
from registry.people.identities import Identity, check_subject
from registry.people.role_rules import RoleRules, load_role_rules
from registry.settings import Settings
from registry.untrusted import RefusedError, check

if TYPE_CHECKING:
    from werkzeug.datastructures import MultiDict

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
"""Accepted signatures of an ID token: with the provider's private key, never with a secret, never unsigned."""
MIN_RSA_CHARACTERS: Final = 342
"""Characters of an RSA key's modulus in base64url: 2,048 bits."""
LEEWAY_S: Final = 60
"""Largest accepted difference between the provider's clock and this host's, in seconds."""
FLOW_S: Final = 600
"""Seconds that a person may take at the provider."""
KEPT_S: Final = 3600
"""Seconds for which the provider's discovery document and keys are used before they are fetched again."""
TIMEOUT_S: Final = 10
"""Longest wait for a part of the provider's answer, in seconds."""
_PUBLIC: Final = ("RSA", "EC", "OKP")
"""Kinds of keys that have a public half."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class ProviderUnavailableError(ShuffleboardError):
    """The provider does not answer, or its answer does not follow OpenID Connect."""


@dataclass(frozen=True)
class Configuration:
    """The configured provider.

    callback: this website's address to which the provider sends browsers back. home: its address after signing out.
    """

    issuer: str
    name: str
    client_id: str
    client_secret: str
    scopes: str
    callback: str
    home: str


def provider_of(settings: Settings) -> "Provider | None":
    """Return the provider in the settings, without a request to it; None if there is no single sign-on.

    Raises UsageError that names the missing or wrong setting.
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
    """Return whether secrets may be sent to a URL: https, or http to this machine."""
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


class _Session(OAuth2Session):  # type: ignore[misc]
    """Authlib's HTTP session with a time-out and without redirects, which could lead to another host."""

    def __init__(self, *, adapter: BaseAdapter | None = None, **options: Any) -> None:
        super().__init__(default_timeout=TIMEOUT_S, **options)
        self.max_redirects = 0
        if adapter is not None:
            self.mount("https://", adapter)


class _Client(FlaskOAuth2App):  # type: ignore[misc]
    """Authlib's client, with additional checks of the provider's documents."""

    client_cls = _Session
    server_metadata: dict[str, Any]

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(
            FlaskIntegration("provider"),
            name="provider",
            client_id=configuration.client_id,
            client_secret=configuration.client_secret or None,
            server_metadata_url=f"{configuration.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={"scope": configuration.scopes, "code_challenge_method": "S256"},
        )
        self._issuer = configuration.issuer

    def load_server_metadata(self) -> dict[str, Any]:
        """Return the provider's discovery document, fetched again after `KEPT_S`.

        Raises ProviderUnavailableError for a document of another issuer, which could sign people in here.
        """
        if time.time() - self.server_metadata.get("_loaded_at", 0) > KEPT_S:
            self.server_metadata = {}
        try:
            document: dict[str, Any] = super().load_server_metadata()
            self._check(document)
        except (TypeError, ValueError, RecursionError, ProviderUnavailableError) as error:
            self.server_metadata = {}
            if isinstance(error, ProviderUnavailableError | RequestException):
                raise
            raise ProviderUnavailableError(f"{self._issuer}: no discovery document") from None
        # Signed with the provider's private key, never with a secret, never unsigned.
        listed = document.get("id_token_signing_alg_values_supported", ALGORITHMS)
        document["id_token_signing_alg_values_supported"] = [name for name in ALGORITHMS if name in listed]
        return document

    def _check(self, document: dict[str, Any]) -> None:
        if document.get("issuer") != self._issuer:
            raise ProviderUnavailableError(f"another issuer than {self._issuer}; correct the setting")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if not _is_sound(document.get(name)):
                raise ProviderUnavailableError(f"{self._issuer}: no https address as its {name}")

    def fetch_jwk_set(self, force: bool = False) -> dict[str, Any]:
        """Return the provider's keys that may verify an ID token."""
        try:
            listed = super().fetch_jwk_set(force)
        except RecursionError:
            listed = None
        if not isinstance(listed, dict) or not isinstance(listed.get("keys"), list):
            raise ProviderUnavailableError(f"{self._issuer}: no set of keys")
        return {"keys": [key for key in listed["keys"] if _may_verify(key)]}


class Provider:
    """The provider of single sign-on; threads may share it. rules: the claims that give each role."""

    def __init__(self, configuration: Configuration, rules: RoleRules) -> None:
        self.configuration = configuration
        self.rules = rules
        self.client = _Client(configuration)

    def begin(self) -> tuple[str, str]:
        """Return the URL at which a person signs in, and the state for the callback; the secrets are in the session.

        Raises ProviderUnavailableError.
        """
        with self._reporting():
            begun = self.client.create_authorization_url(self.configuration.callback)
            self.client.save_authorize_data(redirect_uri=self.configuration.callback, **begun)
        return begun["url"], begun["state"]

    def sign_out_url(self) -> str | None:
        """Return the provider's address for signing out; None if it has none or does not answer."""
        try:
            with self._reporting():
                endpoint = self.client.load_server_metadata().get("end_session_endpoint")
        except ProviderUnavailableError:
            return None
        if not _is_sound(endpoint):
            return None
        # No id_token_hint, since tokens are not stored; the provider asks the person instead.
        query = {"client_id": self.configuration.client_id, "post_logout_redirect_uri": self.configuration.home}
        return f"{endpoint}{'&' if '?' in str(endpoint) else '?'}{urlencode(query)}"

    def faults(self) -> list[str]:
        """Return the reasons why nobody can sign in, from the provider's documents. Raises ProviderUnavailableError."""
        with self._reporting():
            self.client.server_metadata = {}
            document = self.client.load_server_metadata()
            keys = self.client.fetch_jwk_set()["keys"]
        faults = []
        if not keys:
            faults.append("publishes no key that an ID token could be verified with")
        if not document["id_token_signing_alg_values_supported"]:
            faults.append("signs ID tokens in none of the accepted ways, such as RS256 or ES256")
        challenges = document.get("code_challenge_methods_supported", ["S256"])
        if isinstance(challenges, list) and "S256" not in challenges:
            faults.append("does not take the code challenge S256 (PKCE)")
        return faults

    def read_person(self, arguments: "MultiDict[str, str]") -> tuple[Identity, dict[str, Any]]:
        """Return the person who signed in at the provider, and the claims of their ID token.

        arguments: the query string of the callback, which is the current request. Raises AuthenticationError for
        anything but the provider's answer to this browser, and ProviderUnavailableError.
        """
        if any(len(values) > 1 for values in arguments.listvalues()):
            raise self._refusal("its answer has a parameter twice")
        if not arguments.get("code") and "error" not in arguments:
            raise self._refusal("its answer has no code")
        with self._reporting():
            self._check_issuer(arguments.get("iss"))
            options = {
                "iss": {"essential": True, "value": self.configuration.issuer},
                "aud": {"essential": True, "value": self.configuration.client_id},
            }
            token = self.client.authorize_access_token(claims_options=options, leeway=LEEWAY_S)
        claims = token.get("userinfo") if isinstance(token, dict) else None
        if claims is None:
            raise self._refusal("it sends no ID token")
        try:
            check(dict(claims), "the ID token")
            return Identity(self.configuration.issuer, check_subject(claims["sub"])), dict(claims)
        except (RefusedError, UsageError):
            raise self._refusal("its ID token is malformed") from None

    def _check_issuer(self, issuer: str | None) -> None:
        """Refuse an answer from another issuer (RFC 9207)."""
        announced = self.client.load_server_metadata().get("authorization_response_iss_parameter_supported") is True
        if issuer is None and announced:
            raise self._refusal("its answer does not name its issuer (iss)")
        if issuer is not None and issuer != self.configuration.issuer:
            raise self._refusal("its answer is from another issuer (iss)")

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Turn errors of Authlib and of the network into ours, without the provider's tokens or texts."""
        try:
            yield
        except MismatchingStateError:
            raise self._refusal("its answer does not belong to a sign-in that this browser began (state)") from None
        except OAuthError as error:
            raise self._refusal(f"it does not accept the sign-in ({_code(error.error)})") from None
        except JoseError as error:
            raise self._refusal(f"its ID token is not valid ({_code(error.error)})") from None
        except (RequestException, JSONDecodeError) as error:
            raise ProviderUnavailableError(f"{self.configuration.issuer}: no answer ({type(error).__name__})") from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise self._refusal("its answer is malformed") from None

    def _refusal(self, reason: str) -> AuthenticationError:
        return AuthenticationError(f"{self.configuration.name} did not sign you in: {reason}; start again")


def _may_verify(document: Any) -> bool:
    """Return whether a key can verify ID tokens: public, for signatures, readable, RSA with at least 2,048 bits."""
    if not isinstance(document, dict) or document.get("use", "sig") != "sig" or document.get("kty") not in _PUBLIC:
        return False
    if document["kty"] == "RSA" and len(str(document.get("n"))) < MIN_RSA_CHARACTERS:
        return False
    try:
        JWKRegistry.import_key(document)
    except (JoseError, ValueError, TypeError, KeyError):
        return False
    return True


def _code(text: Any) -> str:
    """Return an error code if it has OAuth's form; otherwise "an error"."""
    code = str(text)
    return code if code.isascii() and code.replace("_", "").isalnum() and len(code) <= 40 else "an error"
