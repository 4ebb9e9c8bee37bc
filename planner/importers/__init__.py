"""Measurement files to runs: one file per family, registered by being in this folder.

Formats are recognised by content, never by name. Every metric comes out in one definition and in
SI; what a file does not say is not in its run.
"""

from __future__ import annotations

import importlib
import pkgutil

from planner.importers.document import Document
from planner.importers.refusal import ImportRefused
from planner.importers.registry import IMPORTERS, Importer
from planner.importers.value import from_value
from planner.importers.vllm_latency import step_between
from planner.plan.runs import Run

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "IMPORTERS",
    "ImportRefused",
    "Importer",
    "from_value",
    "read",
    "recognise",
    "step_between",
]


def recognise(raw: bytes, file: str) -> Importer:
    """The importer whose format the content is of. ``file`` only names it in messages.

    Raises ImportRefused when it is of none, is damaged, empty or larger than 512 MiB.
    """
    return _importer(Document(raw, file))


def read(raw: bytes, file: str) -> tuple[Run, ...]:
    """Every run that a file reports: appended results are several.

    Raises ImportRefused with the place and the reason when any of it cannot be taken.
    """
    document = Document(raw, file)
    return _importer(document).read(document)


def _importer(document: Document) -> Importer:
    shape = "bytes" if document.is_sqlite else "json" if document.is_json else "text"
    for _, importer in IMPORTERS:
        if importer.shape == shape and importer.claims(document):
            return importer
    titles = sorted({importer.title for _, importer in IMPORTERS})
    raise ImportRefused(
        document.where,
        "no known measurement format",
        f"known are {', '.join(titles)}; or give one figure, as in --value 12.3ms",
    )
