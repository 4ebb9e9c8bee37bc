"""Fields of forms."""

from __future__ import annotations

import re

from starlette.datastructures import FormData, UploadFile

from planner.service.problems import Refused

_ID = re.compile(r"[0-9a-f]{1,12}")


def text_in(form: FormData, name: str, most: int = 2000) -> str:
    """A field's text without surrounding space. Refused where it is missing, empty or too long."""
    value = _text(form, name).strip()
    if not value:
        raise Refused(422, f"{name}: nothing is given")
    if len(value) > most:
        raise Refused(422, f"{name}: this is too long")
    return value


def id_in(form: FormData, name: str) -> str:
    """A field's id, or its beginning. Refused where it is none."""
    value = text_in(form, name)
    if not _ID.fullmatch(value):
        raise Refused(422, f"{name}: this is no id")
    return value


def deployment_in(form: FormData) -> str:
    """The text of a deployment as it was typed; browsers end its lines as HTTP does."""
    return _text(form, "text").replace("\r\n", "\n")


def _text(form: FormData, name: str) -> str:
    """What no code can hold, half a pair of surrogates, becomes a question mark."""
    value = form.get(name)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


async def file_in(form: FormData, name: str) -> bytes:
    """An uploaded file. Refused where there is none."""
    value = form.get(name)
    if not isinstance(value, UploadFile) or not value.filename:
        raise Refused(422, "no file is given", "choose one")
    return await value.read()
