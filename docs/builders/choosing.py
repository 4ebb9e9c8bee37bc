"""The sums of the choosing page, from a run of the command that it shows."""

from __future__ import annotations

import json
from pathlib import Path

from builders import outputs

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (
    "planner choose specs/llama-3.1-8b-chat.yaml --slo tpot=30ms,ttft=500ms "
    "--price specs/prices-example.yaml --gpus l40s,h100-sxm --json"
)


def by_hand() -> str:
    """The first choice's figures from one another."""
    first = json.loads(outputs.run(COMMAND, ROOT))["choices"][0]
    serving, spent = first["serving"], first["spending"]
    price, rate = spent["price_per_hour"], serving["requests_per_s"]
    users, latency = serving["concurrency"], serving["latency_s"]["value"]
    tokens, output = serving["input"] + serving["output"], serving["output"] * rate
    tpot = next(each for each in first["margins"] if each["name"] == "tpot")
    token, slow = (tpot["found"][end] * 1e3 for end in ("value", "high"))
    inside, outside = spent["per_million_input"], spent["per_million_output"]
    lines = (
        (
            f"{users} users, each answered in {latency:.3f} s, send {users} / {latency:.3f} = "
            f"{rate:.3f} requests a second, {rate:.3f} × {tokens:,} = {rate * tokens:,.0f} tokens."
        ),
        (
            f"{price:.2f} USD an hour over {rate * tokens * 3600 / 1e6:.2f} million tokens is "
            f"{spent['per_million_tokens']:.4f} USD a million."
        ),
        (
            f"{serving['input']:,} × {inside:.4f} + {serving['output']} × {outside:.4f} = "
            f"{_request(first):.2f} USD for a million requests; "
            f"{price:.2f} / (3,600 × {rate:.3f}) × 10⁶ is the same."
        ),
        (
            f"{spent['power_w']:.0f} W over {output:,.0f} output tokens a second is "
            f"{spent['power_w'] / output:.4f} J a token, "
            f"{spent['kwh_per_million_output']:.4f} kWh a million."
        ),
        (
            f"Of the limit of 30 ms a token {token:.2f} ms are used: 1 − {token:.2f} / 30 = "
            f"{100 * tpot['margin']:.1f} % are left; at the worse end of the interval, "
            f"{slow:.2f} ms, {100 * tpot['worst']:.1f} %."
        ),
    )
    head = f"The first choice, {first['units']} × {first['offer']}:"
    return "\n".join([head, "", *(f"- {line}" for line in lines)])


def _request(first: dict) -> float:
    serving, spent = first["serving"], first["spending"]
    return (
        serving["input"] * spent["per_million_input"]
        + serving["output"] * spent["per_million_output"]
    )
