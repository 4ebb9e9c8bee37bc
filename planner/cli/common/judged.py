"""``planner validate FILE``: whole runs of a table, planned and judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def judged(
    file: Path, catalogs: Sequence[Path], *, by: str, out: Path | None, as_json: bool
) -> int:
    """Print every row, the errors by group and how well runs of the same work are ordered.

    The exit code: 2 where a row is wrong.
    """
    from contextlib import nullcontext

    from planner.cli.common.case_groups import Groups, by_columns, case_document
    from planner.cli.common.case_ranking import Ranked
    from planner.cli.common.output import show, write
    from planner.cli.common.planning import catalog_of
    from planner.cli.common.progress import told
    from planner.desk.cases import Planner, written
    from planner.errors import UsageError
    from planner.report.cases import cases_view
    from planner.report.document import to_json
    from planner.spec.cases import open_cases

    with open_cases(file) as table:
        if not any(column.meaning == "measured" for column in table.columns):
            raise UsageError(f"{file} has no measured figures", "as in a column measured.step_ms")
        groups, ranked = Groups(by_columns(by, table)), Ranked(table)
        planner = Planner(catalog_of(catalogs))
        rows = []
        with written(out, table) if out else nullcontext() as keep:
            for row in told(planner.answered(case) for case in table.cases):
                groups.add(row)
                ranked.add(row)
                rows.append(case_document(row))
                if keep:
                    keep(row)
    found, ranking = groups.documents(), ranked.documents()
    if as_json:
        body = {"by": list(groups.names), "rows": rows, "groups": found, "ranking": ranking}
        write(to_json("cases", body))
    else:
        show(cases_view(rows, found, groups.names, ranking))
    return 2 if any(row["error"] for row in rows) else 0
