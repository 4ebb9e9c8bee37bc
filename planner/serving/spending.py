"""What a serving costs: money by the million tokens, and energy."""

from __future__ import annotations

from dataclasses import dataclass

from planner.plan.serving_types import ServingPlan

_MILLION = 1e6
_HOUR_S = 3600.0
_JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Spending:
    """Money in USD; None where no price is known."""

    price_per_hour: float | None
    per_million_input: float | None
    """Of input tokens: the share of the time that goes to prompts."""
    per_million_output: float | None
    per_million_tokens: float | None
    """All that is paid, over input and output tokens alike."""
    power_w: float | None
    """All GPUs at their TDP; None where it is not known."""
    kwh_per_million_output: float | None
    """At that power, the prompts' share included: hosts, cooling and idle GPUs are left out."""


def spending(serving: ServingPlan, price_per_hour: float | None, power_w: float | None) -> Spending:
    """What a serving costs on hardware of that price and power.

    With the share p of the time that goes to prompts, r requests a second of i and o tokens, and
    the price s a second: p·s / (r·i) an input token, (1 − p)·s / (r·o) an output token. The two
    make up all that is paid.
    """
    prompts, rate = prompt_share(serving), serving.requests_per_s
    output_s = rate * serving.output
    kwh = None if power_w is None else power_w / output_s * _MILLION / _JOULES_PER_KWH
    if price_per_hour is None:
        return Spending(None, None, None, None, power_w, kwh)
    million = price_per_hour / _HOUR_S * _MILLION
    return Spending(
        price_per_hour,
        prompts * million / (rate * serving.input),
        (1 - prompts) * million / output_s,
        million / (rate * (serving.input + serving.output)),
        power_w,
        kwh,
    )


def prompt_share(serving: ServingPlan) -> float:
    """Of the time between steps that goes to prompts.

    Where prompts share a step, what it takes longer than a decode step is theirs.
    """
    if serving.output == 1:
        return 1.0
    decode, prefill = serving.decode, serving.prefill
    mixed = prefill.sequences > 0
    beside_s = decode.time_s if mixed else 0.0
    prompts_s = prefill.share * max(0.0, prefill.time_s - beside_s)
    decode_s = (1.0 if mixed else decode.share) * decode.time_s
    return prompts_s / (prompts_s + decode_s)
