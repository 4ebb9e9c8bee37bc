"""Errors as ``application/problem+json`` (RFC 9457), with every fault at its place."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from planner.errors import Fault, PlannerError, SpecError, StoreError, UsageError
from planner.importers import ImportRefused

MEDIA_TYPE = "application/problem+json"
RETRY_S = "1"
_LOG = logging.getLogger("planner.service")


class FaultModel(BaseModel):
    """One thing wrong with a text."""

    file: str = Field(examples=["deployment.yaml"])
    line: int | None = Field(description="From one; null where it is of no line", examples=[2])
    column: int | None = Field(examples=[1])
    message: str = Field(examples=["contxt: unknown field"])
    hint: str | None = Field(examples=["did you mean 'context'?"])
    text: str | None = Field(description="The line", examples=["contxt: 4096"])


class Problem(BaseModel):
    """What is wrong with a request."""

    type: str = Field(examples=["about:blank"])
    title: str = Field(examples=["Unprocessable Content"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["contxt: unknown field"])
    hint: str | None = Field(examples=["did you mean 'context'?"])
    faults: list[FaultModel] = Field(description="Every fault of a text, in its order")


class Refused(HTTPException):
    """A request that is not answered, with what to do about it."""

    def __init__(
        self,
        status: int,
        detail: str,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.hint = hint


def busy(detail: str) -> Refused:
    """Too much at once: the client is told to come again."""
    return Refused(429, detail, "come again in a moment", {"Retry-After": RETRY_S})


def fault_document(fault: Fault) -> dict[str, Any]:
    """A fault as plain data."""
    where = fault.where
    place = (where.line, where.column) if where.line else (None, None)
    return {
        "file": where.file,
        "line": place[0],
        "column": place[1],
        "message": fault.message,
        "hint": fault.hint,
        "text": fault.text,
    }


def problem(
    status: int,
    detail: str,
    *,
    hint: str | None = None,
    faults: Sequence[Fault] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An answer that says what is wrong."""
    document = {
        "type": "about:blank",
        "title": _title(status),
        "status": status,
        "detail": detail,
        "hint": hint,
        "faults": [fault_document(fault) for fault in faults],
    }
    body = json.dumps(document, ensure_ascii=True)
    return Response(body, status, dict(headers or {}), media_type=MEDIA_TYPE)


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


@contextmanager
def absent_is_404() -> Iterator[None]:
    """What a request names and is not there is no fault of its form."""
    try:
        yield
    except UsageError as error:
        raise Refused(404, error.message, error.hint) from error


@dataclass(frozen=True)
class Told:
    """An error as clients are told of it, in JSON or as a page."""

    status: int
    detail: str
    hint: str | None = None
    faults: tuple[Fault, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


def told(error: Exception) -> Told:
    """What is said of an error of the input, or of the surroundings."""
    if isinstance(error, SpecError):
        first = error.faults[0]
        more = len(error.faults) - 1
        detail = f"{first.message}, and {more} more" if more else first.message
        return Told(422, detail, first.hint, tuple(error.faults))
    if isinstance(error, ImportRefused):
        fault = Fault(error.where, error.reason, error.hint)
        return Told(422, error.reason, error.hint, (fault,))
    if isinstance(error, StoreError):
        _LOG.error("store: %s", error)
        return Told(503, "the store does not answer", headers={"Retry-After": RETRY_S})
    if isinstance(error, UsageError):
        return Told(422, error.message, error.hint)
    return _told_of_request(error)


def _told_of_request(error: Exception) -> Told:
    if isinstance(error, RequestValidationError):
        return Told(422, "; ".join(_sentence(each) for each in error.errors()[:20]))
    if isinstance(error, HTTPException):
        hint = error.hint if isinstance(error, Refused) else None
        return Told(error.status_code, str(error.detail), hint, headers=error.headers or {})
    return Told(422, str(error))


def problem_of(error: Exception) -> Response:
    """The answer to an error of the input, or of the surroundings."""
    it = told(error)
    return problem(it.status, it.detail, hint=it.hint, faults=it.faults, headers=it.headers)


def install(app: FastAPI) -> None:
    """Let every error of an app be a problem."""
    for kind in (PlannerError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _answer)


async def _answer(_: Request, error: Exception) -> Response:
    return problem_of(error)


def _sentence(each: Mapping[str, Any]) -> str:
    place = ".".join(str(part)[:60] for part in each.get("loc", ()))
    return f"{place}: {each.get('msg', 'is wrong')}"
