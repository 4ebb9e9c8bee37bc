"""Browsers: a signed cookie that stands for a token, and the secret that forms carry.

Nothing is kept of a session: cookie and form token are signed with a key that this process made.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

from planner.service.tokens import Access

COOKIE = "planner_session"
FORM_FIELD = "form_token"
"""The hidden field of every form; also taken from the header ``X-Form-Token``."""
FORM_HEADER = "x-form-token"
LIFE_S = 12 * 3600


class Sessions:
    """Issues and reads the cookies of one running service."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def issue(self, access: Access) -> str:
        """A cookie's value for so much access, for twelve hours."""
        body = f"{int(access)}.{int(time.time()) + LIFE_S}.{secrets.token_hex(8)}"
        return f"{body}.{self._signed('session', body)}"

    def access(self, cookie: str | None) -> Access:
        """What a cookie allows; nothing where it is forged, too old or missing."""
        body, _, signature = (cookie or "").rpartition(".")
        if not hmac.compare_digest(self._signed("session", body), _ascii(signature)):
            return Access.NONE
        access, until, _ = body.split(".")
        return Access(int(access)) if time.time() < int(until) else Access.NONE

    def form_token(self, cookie: str) -> str:
        """What the forms of a page carry that was shown to the browser with this cookie."""
        return self._signed("form", cookie)

    def form_is_own(self, cookie: str | None, offered: str | None) -> bool:
        """Whether a form was shown to the browser that sends it."""
        if not offered or self.access(cookie) is Access.NONE:
            return False
        return hmac.compare_digest(self.form_token(cookie or ""), _ascii(offered))

    def _signed(self, purpose: str, text: str) -> str:
        message = f"{purpose}:{text}".encode("utf-8", "replace")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()


def _ascii(text: str) -> str:
    """Comparing in constant time takes ASCII alone."""
    return text if text.isascii() else ""
