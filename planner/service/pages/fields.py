"""Fields of forms."""

from __future__ import annotations

from starlette.datastructures import FormData, UploadFile

from planner.service.problems import Refused


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
