"""OAUTHBEARER (RFC 7628): a login with a token, which is fetched for a client's id and secret.

Owns asking the token endpoint, and keeping a token for most of its life. Must not know: what is in a token.
"""

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from barnabas.client.errors import Unreachable
from barnabas.client.scram import Exchange, LoginFailed

_ANSWER_S: Final = 10.0
_MAX_ANSWER_BYTES: Final = 1024 * 1024
_KEPT_SHARE: Final = 0.8  # of a token's life
_TRY_AGAIN: Final = (408, 429)
_SEPARATOR: Final = "\x01"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the secret is sent to the configured address only."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(slots=True)
class TokenSource:
    """Tokens by the grant `client_credentials`."""

    url: str
    client_id: str
    secret: str = field(repr=False)
    scope: str | None = None
    tls: ssl.SSLContext | None = None
    _token: str = field(default="", repr=False)
    _kept_until: float = 0.0

    def token(self) -> str:
        if time.monotonic() >= self._kept_until:
            self._fetch()
        return self._token

    def _fetch(self) -> None:
        asked_at = time.monotonic()
        answer = self._ask()
        token, life_s = answer.get("access_token"), answer.get("expires_in", 0)
        if not isinstance(token, str) or not token or not token.isascii() or _SEPARATOR in token:
            raise LoginFailed(f"the token endpoint {self.url} answered without an access_token")
        self._token = token
        is_number = isinstance(life_s, (int, float)) and not isinstance(life_s, bool)
        self._kept_until = asked_at + (life_s * _KEPT_SHARE if is_number else 0.0)

    def _ask(self) -> Mapping[str, Any]:
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        login = f"{self.client_id}:{self.secret}"  # as Kafka's clients send it, without RFC 6749's extra encoding
        headers = {
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(login.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        request = urllib.request.Request(self.url, urlencode(form).encode(), headers, method="POST")
        opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=self.tls))
        try:
            with opener.open(request, timeout=_ANSWER_S) as answer:
                found = json.loads(answer.read(_MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            error.close()
            message = f"the token endpoint {self.url} answered {error.code} {error.reason}"
            passes = error.code >= 500 or error.code in _TRY_AGAIN
            raise (Unreachable if passes else LoginFailed)(message) from None
        except ssl.SSLCertVerificationError as error:
            raise LoginFailed(f"the token endpoint {self.url} is not trusted: {error.verify_message}") from None
        except OSError as error:  # also what urllib wraps
            reason = getattr(error, "reason", error)
            kind = LoginFailed if isinstance(reason, ssl.SSLCertVerificationError) else Unreachable
            raise kind(f"cannot reach the token endpoint {self.url}: {reason}") from None
        except ValueError:
            raise LoginFailed(f"the token endpoint {self.url} answered with something that is not JSON") from None
        if not isinstance(found, dict):
            raise LoginFailed(f"the token endpoint {self.url} answered with something that is not a token")
        return found


def oauth_bearer(token: str, extensions: Mapping[str, str]) -> Exchange:
    """Log in with a token. A broker that refuses it says why, and expects one more message before it ends the login."""
    parts = ["n,,", f"auth=Bearer {token}", *(f"{name}={value}" for name, value in extensions.items()), "", ""]
    why = yield _SEPARATOR.join(parts).encode()
    if why:
        yield _SEPARATOR.encode()
        raise LoginFailed(f"it refused the token: {why[:500].decode(errors='replace')}")
