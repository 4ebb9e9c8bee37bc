"""What browsers send: forms that this service showed them, and no others."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import FormData, UploadFile

from planner.service.desk import desk_of
from planner.service.problems import Refused
from planner.service.sessions import COOKIE, FORM_FIELD, FORM_HEADER

_FIELDS = 80


async def _form(request: Request) -> FormData:
    form = await request.form(max_files=1, max_fields=_FIELDS)
    offered = form.get(FORM_FIELD) or request.headers.get(FORM_HEADER)
    own = desk_of(request).sessions.form_is_own
    if not isinstance(offered, str) or not own(request.cookies.get(COOKIE), offered):
        raise Refused(403, "this form is too old, or of another page", "open the page again")
    return form


Form = Annotated[FormData, Depends(_form)]
"""A form with its token checked. Refused with 403 where it is not this browser's."""


def text_in(form: FormData, name: str, most: int = 2000) -> str:
    """A field's text without surrounding space. Refused where it is missing, empty or too long."""
    value = form.get(name)
    if not isinstance(value, str) or not value.strip():
        raise Refused(422, f"{name}: nothing is given")
    if len(value) > most:
        raise Refused(422, f"{name}: this is too long")
    return value.strip()


def deployment_in(form: FormData) -> str:
    """The text of a deployment as it was typed; browsers end its lines as HTTP does."""
    value = form.get("text")
    return value.replace("\r\n", "\n") if isinstance(value, str) else ""


async def file_in(form: FormData, name: str) -> bytes:
    """An uploaded file. Refused where there is none."""
    value = form.get(name)
    if not isinstance(value, UploadFile) or not value.filename:
        raise Refused(422, "no file is given", "choose one")
    return await value.read()
