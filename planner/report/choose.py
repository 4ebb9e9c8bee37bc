"""What to rent, as people and programs read it: choices, their margins and money, commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType

from planner.plan.values import plain
from planner.report.cells import (
    DASH,
    bullets,
    facts,
    heading,
    price,
    rate,
    share,
    small,
    table,
    typed,
    words,
)
from planner.report.money import money
from planner.report.running import running
from planner.serving.candidates import as_set
from planner.serving.choose_types import Choice, Chosen
from planner.serving.command import EngineCommand
from planner.serving.targets import Margin, Targets
from planner.spec.types import DeploymentSpec
from planner.units import show_seconds

_NAMES = {
    "ttft": "time to first token",
    "tpot": "time per output token",
    "latency": "whole request",
    "throughput": "output tokens/s",
}


@dataclass(frozen=True, eq=False)
class Answer:
    """A choice with all that it takes to act on it."""

    chosen: Chosen
    asked: DeploymentSpec
    sets: tuple[str, ...]
    """As the command line had them."""
    file: str
    commands: Mapping[int, EngineCommand | None]
    """By the choice's id."""

    def sets_of(self, choice: Choice) -> tuple[str, ...]:
        """What makes the file's deployment this one, as ``--set`` takes it."""
        changes = tuple(map(as_set, choice.changes(self.asked)))
        named = ("backend",) in self.asked.origin.document.marks
        flags = any(change.startswith("backend.flags.") for change in changes)
        engine = () if named or not flags else (f"backend.name={self.asked.backend.name}",)
        return (*self.sets, *engine, *changes)

    def command(self, choice: Choice) -> EngineCommand | None:
        """What starts it; None for a backend without a server."""
        return self.commands.get(id(choice))


def choose_view(answer: Answer) -> RenderableType:
    """Choices with their money, the command of the cheapest, the front, what was given."""
    chosen = answer.chosen
    parts: list[RenderableType] = [_title(answer)]
    if chosen.choices:
        shown = chosen.choices[: chosen.wish.listed]
        parts += [heading("What keeps them, cheapest first"), _choices(shown, answer.asked)]
        parts += [
            _crossings(shown),
            money([(_rent(each), plain(each.spending)) for each in shown]),
            *_run(answer, shown[0]),
        ]
        parts += [heading("Pareto front: nothing is both cheaper and faster"), _front(answer)]
    else:
        parts += [words("nothing that was planned keeps them", "bold red")]
        if chosen.nearest:
            parts += [heading("What misses them by least")]
            parts += [_choices(chosen.nearest, answer.asked), _crossings(chosen.nearest)]
    parts += [*_given(chosen), *_left_out(chosen)]
    return Group(*parts)


def _title(answer: Answer) -> RenderableType:
    chosen, load = answer.chosen, answer.asked.workload
    assert load is not None
    return facts(
        [
            ("model", answer.asked.model),
            ("users", f"{chosen.wish.users:,}, {load.input:,} tokens in, {load.output:,} out"),
            ("limits", limit_words(chosen.wish.targets)),
        ]
    )


def limit_words(limits: Targets) -> str:
    """The limits that are to be kept."""
    said = [
        f"{_NAMES[name]} up to {show_seconds(value)}"
        for name, value in (
            ("ttft", limits.ttft_s),
            ("tpot", limits.tpot_s),
            ("latency", limits.latency_s),
        )
        if value is not None
    ]
    if limits.output_tokens_per_s is not None:
        said.append(f"at least {rate(limits.output_tokens_per_s)} output tokens/s")
    return "; ".join(said)


def _choices(found: Sequence[Choice], asked: DeploymentSpec) -> RenderableType:
    headers = ("", "rent", "run", "USD/h", "first", "a token", "out/s", "margin", "users")
    rows = table(headers, left=(1, 2))
    for number, choice in enumerate(found, 1):
        serving = choice.serving
        rows.add_row(
            str(number),
            words(_rent(choice)),
            words(_how(choice, asked)),
            price(choice.spending.price_per_hour),
            show_seconds(serving.ttft_s.value),
            show_seconds(serving.tpot_s.value),
            rate(serving.output_tokens_per_s.value),
            _tightest(choice),
            DASH if choice.most_users is None else f"{choice.most_users:,}",
        )
    about = (
        "margin: to the tightest limit, with ? where its 80 % interval crosses it. "
        "users: most within the limits of time."
    )
    return Group(rows, small(about))


def _rent(choice: Choice) -> str:
    return f"{choice.units} × {choice.offer.name}"


def _how(choice: Choice, asked: DeploymentSpec) -> str:
    parallel = choice.question.deployment.parallel
    names = {"tp": "tensor", "pp": "pipeline", "ep": "expert", "dp": "data"}
    sizes = [(name, getattr(parallel, path)) for name, path in names.items()]
    sizes.append(("nodes", choice.question.deployment.nodes or 1))
    said = [f"{name} {size}" for name, size in sizes if size > 1]
    said += [
        f"{path.rpartition('.')[2].replace('_', ' ')} {str(value).lower()}"
        for path, value in choice.changes(asked)
        if path.startswith(("precision.", "backend.flags."))
    ]
    text = ", ".join(said).replace("weights fp8, activations fp8", "fp8")
    return text or "as it is"


def _tightest(choice: Choice) -> str:
    if not choice.margins:
        return DASH
    found = min(choice.margins, key=lambda each: each.margin)
    return f"{share(found.margin)}{' ?' if choice.unsure else ''}"


def _crossings(found: Iterable[Choice]) -> RenderableType:
    """A sentence for each limit that an interval crosses."""
    sentences = [
        f"{number}: {_crossing(margin)}"
        for number, choice in enumerate(found, 1)
        for margin in choice.margins
        if margin.crosses
    ]
    return bullets(sentences) if sentences else words("every 80 % interval keeps to one side")


def _crossing(margin: Margin) -> str:
    found = margin.found
    said = rate if margin.name == "throughput" else show_seconds
    assert found.low is not None
    assert found.high is not None
    verb = "kept" if margin.inside else "missed"
    return (
        f"{_NAMES[margin.name]} {said(found.value)}, 80 % {said(found.low)}–{said(found.high)}: "
        f"the limit of {said(margin.limit)} is {verb}, but the interval crosses it"
    )


def _run(answer: Answer, choice: Choice) -> list[RenderableType]:
    found = answer.command(choice)
    sets = [word for text in answer.sets_of(choice) for word in ("--set", text)]
    plan = typed(shlex.join(["planner", "plan", answer.file, *sets]))
    if found is None:
        return [heading("To plan the cheapest"), plan]
    return [*running({**plain(found), "line": found.line}), words(""), plan]


def _front(answer: Answer) -> RenderableType:
    rows = table(("rent", "run", "USD/h", "a token", "out/s"), left=(0, 1))
    for choice in answer.chosen.front:
        rows.add_row(
            words(_rent(choice)),
            words(_how(choice, answer.asked)),
            price(choice.spending.price_per_hour),
            show_seconds(choice.serving.tpot_s.value),
            rate(choice.serving.output_tokens_per_s.value),
        )
    return rows


def _given(chosen: Chosen) -> list[RenderableType]:
    title = heading("The deployment as it stands")
    given = chosen.given
    if given is None:
        return [title, words("cannot serve them")]
    gpus = given.question.deployment.parallel.gpus
    verdict = "keeps the limits" if given.meets else "misses the limits"
    serving = given.serving
    return [
        title,
        words(
            f"{gpus} × {given.offer.name} {verdict}: first token after "
            f"{show_seconds(serving.ttft_s.value)}, {show_seconds(serving.tpot_s.value)} a token, "
            f"{rate(serving.output_tokens_per_s.value)} output tokens/s; it carries up to "
            f"{given.most_users or 0:,} users within the limits of time"
        ),
    ]


def _left_out(chosen: Chosen) -> list[RenderableType]:
    count = sum(times for _, times in chosen.left_out)
    lines: list[RenderableType] = [words("")]
    lines.append(small(f"{chosen.planned:,} deployments planned, {count:,} left out"))
    if chosen.left_out:
        lines.append(bullets(f"{times:,}: {reason}" for reason, times in chosen.left_out))
    return lines


def choose_document(answer: Answer) -> dict[str, Any]:
    """The choices for programs."""
    chosen, workload = answer.chosen, answer.asked.workload
    assert workload is not None
    return {
        "model": answer.asked.model,
        "workload": workload.model_dump(mode="json", exclude_none=True),
        "targets": plain(chosen.wish.targets),
        "max_gpus": chosen.wish.most_gpus,
        "choices": [_plain(choice, answer) for choice in chosen.choices],
        "front": [_plain(choice, answer) for choice in chosen.front],
        "nearest": [_plain(choice, answer) for choice in chosen.nearest],
        "given": _plain(chosen.given, answer) if chosen.given else None,
        "planned": chosen.planned,
        "left_out": [{"reason": text, "count": count} for text, count in chosen.left_out],
    }


def _plain(choice: Choice, answer: Answer) -> dict[str, Any]:
    deployment, command = choice.question.deployment, answer.command(choice)
    return {
        "offer": choice.offer.name,
        "units": choice.units,
        "gpu": choice.offer.gpu,
        "gpus": choice.gpus,
        "gpus_used": deployment.parallel.gpus,
        "parallel": deployment.parallel.model_dump(),
        "precision": deployment.precision.model_dump(mode="json", exclude_none=True),
        "flags": deployment.backend.flags,
        "lossless": choice.candidate.lossless,
        "sets": list(answer.sets_of(choice)),
        "meets": choice.meets,
        "unsure": list(choice.unsure),
        "margins": [
            {**plain(each), "inside": each.inside, "crosses": each.crosses}
            for each in choice.margins
        ],
        "spending": plain(choice.spending),
        "most_users": choice.most_users,
        "serving": plain(choice.serving),
        "command": command and {**plain(command), "line": command.line},
    }
