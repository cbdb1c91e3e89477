"""Authentication of one node: what each listener requires, and an exchange for each mechanism.

Refusals are logged with their reason and the client's address; the client is told in general words, so that it learns
nothing of who exists.
"""

import asyncio
from typing import Final

from barnabas.core.access.attempts import FailedLogins
from barnabas.core.access.bearer import OAUTHBEARER, TokenRules
from barnabas.core.access.certificates import MappingRule, parse_mapping_rules, user_of
from barnabas.core.access.plain import PLAIN
from barnabas.core.access.scram import DIGESTS
from barnabas.core.errors import InvalidConfig, SaslAuthenticationFailed
from barnabas.runtime.clock import Clock
from barnabas.runtime.dice import Dice
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.offload import Threads
from barnabas.runtime.token_keys import TokenKeys
from barnabas.services.authentication.bearer import BearerExchange, Tokens
from barnabas.services.authentication.callers import Callers
from barnabas.services.authentication.exchange import Exchange, Identity
from barnabas.services.authentication.plain import PasswordChecks, PlainExchange
from barnabas.services.authentication.scram import ScramExchange
from barnabas.services.authentication.users import Users
from barnabas.services.session import ANONYMOUS, Principal
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.listener import SASL_PLAINTEXT, SASL_SSL
from barnabas.services.settings.catalogue.security_settings import SecuritySettings

log = get_logger("barnabas.authentication")

KEY_BYTES: Final = 32
REFUSED: Final = "Authentication failed: invalid credentials"
"""What a client is told, whatever the reason."""


class Authentication:
    """Who clients are, for all connections of a node."""

    def __init__(self, config: BrokerConfig, users: Users, *, clock: Clock, dice: Dice, threads: Threads) -> None:
        self._config = config
        self._users = users
        self._clock = clock
        self._dice = dice
        self._threads = threads
        self._checks = PasswordChecks(users, threads.compute, key=dice.token_bytes(KEY_BYTES))
        self._failed = FailedLogins()
        self._succeeded = 0
        self._settings: dict[tuple[str, str | None], SecuritySettings] = {}
        self._tokens: dict[str, Tokens] = {}
        self._rules: dict[str, tuple[MappingRule, ...]] = {}
        for listener in config.listeners:
            self._check(listener.name)

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.counter("logins_total", "Logins by SASL that succeeded.", lambda: self._succeeded)
        metrics.counter("logins_failed_total", "Logins by SASL that failed.", lambda: self._failed.count)

    def _check(self, listener: str) -> None:
        """Refuse settings of a listener that nobody could log in by."""
        if self._config.protocol_of(listener) not in (SASL_PLAINTEXT, SASL_SSL):
            return
        if not self.mechanisms(listener):
            raise InvalidConfig(f"sasl.enabled.mechanisms is empty, and the listener {listener} needs one")
        if OAUTHBEARER in self.mechanisms(listener):
            self._tokens[listener] = self._tokens_of(listener)

    def _tokens_of(self, listener: str) -> Tokens:
        settings = self.settings(listener, OAUTHBEARER)
        if settings.sasl_oauthbearer_jwks_endpoint_url is None:
            raise InvalidConfig(
                f"the listener {listener} accepts OAUTHBEARER, and nothing says which keys sign tokens: set "
                "sasl.oauthbearer.jwks.endpoint.url"
            )
        refresh_s = settings.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000
        keys = TokenKeys(
            settings.sasl_oauthbearer_jwks_endpoint_url,
            computing=self._threads.compute,
            fetching=self._threads.background,
            refresh_s=refresh_s,
        )
        rules = TokenRules(
            issuer=settings.sasl_oauthbearer_expected_issuer,
            audiences=settings.sasl_oauthbearer_expected_audience,
            required_scopes=settings.sasl_oauthbearer_required_scope,
            scope_claim=settings.sasl_oauthbearer_scope_claim_name,
            subject_claim=settings.sasl_oauthbearer_sub_claim_name,
            clock_skew_s=settings.sasl_oauthbearer_clock_skew_seconds,
        )
        return Tokens(keys, rules, self._clock)

    def requires_login(self, listener: str) -> bool:
        """Whether clients of a listener have to log in by SASL."""
        return self._config.protocol_of(listener) in (SASL_PLAINTEXT, SASL_SSL)

    def settings(self, listener: str, mechanism: str | None = None) -> SecuritySettings:
        """The settings of a listener, for a mechanism."""
        key = (listener, mechanism)
        if key not in self._settings:
            self._settings[key] = self._config.security_of(listener, mechanism)
        return self._settings[key]

    def mechanisms(self, listener: str) -> tuple[str, ...]:
        """The mechanisms that a listener accepts."""
        return self.settings(listener).sasl_enabled_mechanisms

    def begin(self, listener: str, mechanism: str, *, address: str) -> Exchange:
        """A login from an address by a mechanism that this listener accepts."""
        if mechanism in DIGESTS:
            return ScramExchange(mechanism, self._users, self._dice)
        if mechanism == PLAIN:
            return PlainExchange(self._users, self._checks, address=address)
        return BearerExchange(self._tokens[listener])

    def callers(self) -> Callers | None:
        """Who calls over HTTP and gRPC; None if no listener for clients asks who they are."""
        names = [each.name for each in self._config.listeners if not self._config.is_for_controllers(each.name)]
        asking = [name for name in names if self._config.asks_clients(name)]
        if not asking:
            return None
        mechanisms = {each for name in asking if self.requires_login(name) for each in self.mechanisms(name)}
        has_passwords = not mechanisms.isdisjoint((PLAIN, *DIGESTS))
        tokens = next((self._tokens[name] for name in asking if name in self._tokens), None)
        checks = self._checks if has_passwords else None

        async def refuse(refusal: SaslAuthenticationFailed, peer: tuple[str, int]) -> SaslAuthenticationFailed:
            await self.hold_back(refusal, listener=asking[0], peer=peer)
            return SaslAuthenticationFailed(REFUSED)

        return Callers(self._users, checks, tokens, refuse, key=self._dice.token_bytes(KEY_BYTES))

    def identify(self, listener: str, subject: str | None) -> Principal:
        """Who a client with a certificate of this distinguished name is; without one it is anonymous."""
        if subject is None:
            return ANONYMOUS
        if listener not in self._rules:
            self._rules[listener] = parse_mapping_rules(self.settings(listener).ssl_principal_mapping_rules)
        return Principal("User", user_of(subject, self._rules[listener]))

    def lifetime_ms(self, listener: str, mechanism: str, identity: Identity) -> int | None:
        """How long a login counts from now; None: for as long as the connection lasts."""
        limits = []
        most_ms = self.settings(listener, mechanism).connections_max_reauth_ms
        if most_ms > 0 and not identity.is_node:
            limits.append(most_ms)
        if identity.expires_at_ms is not None:
            limits.append(max(identity.expires_at_ms - self._clock.now_ms(), 1))
        return min(limits) if limits else None

    def note_success(self) -> None:
        """A client has logged in."""
        self._succeeded += 1

    async def hold_back(self, refusal: SaslAuthenticationFailed, *, listener: str, peer: tuple[str, int]) -> bool:
        """A login failed: say so here, and wait before the client is told; False if it is not to be told at all."""
        log.warning("refused the login of %s:%s: %s", *peer, refusal, extra={"kind": "login"})
        address = peer[0]
        delay_ms = self._failed.note(
            address,
            now_ms=self._clock.elapsed_ms(),
            delay_ms=self.settings(listener).connection_failed_authentication_delay_ms,
        )
        if delay_ms is None:
            return False
        self._failed.hold(address)
        try:
            await asyncio.sleep(delay_ms / 1000)
        finally:
            self._failed.release(address)
        return True
