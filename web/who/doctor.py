"""The website's checks for `shuffleboard doctor`: its provider of single sign-on."""

from typing import Final

from registry.errors import UsageError
from registry.operations.doctor import Check, Context, Outcome, ok, problem
from web.who.openid import ProviderUnavailableError, provider_of


def single_sign_on(context: Context) -> Outcome:
    """Check that the provider for signing in works."""
    try:
        provider = provider_of(context.settings)
    except UsageError as error:
        return problem(str(error), "correct the setting or file; the website does not start with it")
    if provider is None:
        return ok("none: these settings name no provider")
    issuer = provider.configuration.issuer
    try:
        faults = provider.faults()
    except ProviderUnavailableError as error:
        return problem(
            f"{error}; nobody can sign in through it",
            "start the provider, let this host reach it, or correct SHUFFLEBOARD_OIDC_ISSUER",
        )
    if faults:
        return problem(f"{issuer} {'; '.join(faults)}", "change that in the provider's settings of this client")
    return ok(f"{issuer} answers, with its keys; whether it knows this client is seen when somebody signs in")


CHECKS: Final = (Check("single sign-on", single_sign_on, far=True),)
