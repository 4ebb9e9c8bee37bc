"""`planner intensity` against the tables of the two articles the project was created from."""

from __future__ import annotations

import pytest

import planner
from planner.plan.intensity import intensity
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of

CATALOG = Catalog.standard()
MODEL = CATALOG.find("model", "qwen2.5-7b-instruct")
BLOCKS = blocks_of(MODEL, CATALOG)
RTX_4090 = CATALOG.find("gpu", "rtx-4090")


def table(convention: str = "textbook"):
    tokens, contexts = (1, 256), (128, 512, 2048)
    return intensity(MODEL, BLOCKS, RTX_4090, tokens, contexts, convention=convention)


def test_the_ridge_of_the_4090_is_its_rate_over_its_bandwidth():
    """The article rounds 165.2 TFLOP/s over 1.008 TB/s up to 165."""
    assert f"{table().ridge_flops_per_byte:.1f}" == "163.9"


@pytest.mark.parametrize(
    ("name", "tokens", "printed", "regime"),
    [
        ("q_proj", 1, "1.0", "memory"),
        ("k_proj", 1, "1.0", "memory"),
        ("gate_proj", 1, "1.0", "memory"),
        ("down_proj", 1, "1.0", "memory"),
        ("q_proj", 256, "224.0", "compute"),
        ("o_proj", 256, "224.0", "compute"),
        ("k_proj", 256, "162.9", "memory"),
        ("v_proj", 256, "162.9", "memory"),
        ("gate_proj", 256, "236.0", "compute"),
        ("up_proj", 256, "236.0", "compute"),
        ("down_proj", 256, "236.0", "compute"),
    ],
)
def test_gemm_rows_of_the_article_to_the_digit(name, tokens, printed, regime):
    row = next(r for r in table().gemms if (r.name, r.tokens) == (name, tokens))
    assert (f"{row.flops_per_byte:.1f}", row.bound) == (printed, regime)


@pytest.mark.parametrize(
    ("context", "decode", "prefill"),
    [(128, "7.0", "896.0"), (512, "7.0", "3584.0"), (2048, "7.0", "14336.0")],
)
def test_attention_rows_of_the_article_to_the_digit(context, decode, prefill):
    row = next(r for r in table().attention if r.context == context)
    printed = (f"{row.decode_flops_per_byte:.1f}", f"{row.prefill_flops_per_byte:.1f}")
    assert printed == (decode, prefill)
    assert (row.decode_bound, row.prefill_bound) == ("memory", "compute")


def test_exact_attention_counts_queries_outputs_and_causal_work():
    """Decode at 512: 4·28·128·512 FLOPs over 2 B·(2·512·4·128 + 2·28·128) = 7·512/519; prefill does
    512·513/2 pairs over 2 B·(2·512·4·128 + 2·512·28·128) = 28·513/64.
    """
    row = next(r for r in table("exact").attention if r.context == 512)
    assert row.decode_flops_per_byte == pytest.approx(7 * 512 / 519)
    assert row.prefill_flops_per_byte == pytest.approx(28 * 513 / 64)
    assert row.limit_flops_per_byte == 7


@pytest.mark.parametrize(
    ("name", "depth", "features"), [("q_proj", 3584, 3584), ("k_proj", 3584, 512)]
)
def test_the_crossing_batch_solves_the_seed_formula(name, depth, features):
    """At M* the intensity 2MKN / ((MK + KN + MN)·b) is the ridge."""
    found = table()
    row = next(r for r in found.gemms if r.name == name)
    rows = row.crossing_tokens
    elements = rows * depth + depth * features + rows * features
    assert 2 * rows * depth * features / (elements * 2) == pytest.approx(found.ridge_flops_per_byte)
    assert rows > found.ridge_flops_per_byte, "activations nudge M* above P·b/2B"


def test_roofline_example_of_the_article():
    """L40S: 2 TFLOP over 8 GB at 362 TFLOP/s and 864 GB/s: 9.26 ms, memory-bound, ridge 419."""
    found = planner.roofline(
        flops=2e12, hbm_bytes=8e9, peak_flops_per_s=362e12, bandwidth_bytes_per_s=864e9
    )
    assert f"{found.time_s * 1e3:.2f} ms" == "9.26 ms"
    assert found.bound == "memory"
    assert f"{found.ridge_flops_per_byte:.0f}" == "419"
    assert found.flops_per_byte == 250


# --- latent attention --------------------------------------------------------------------------


def latent_row(name: str, convention: str, context: int = 4096):
    model = CATALOG.find("model", name)
    found = intensity(
        model, blocks_of(model, CATALOG), RTX_4090, (1,), (context,), convention=convention
    )
    assert "kv_b_proj" not in {row.name for row in found.gemms}
    return found.attention[-1]


def test_latent_attention_shows_decode_absorbed_and_prompts_expanded():
    """V2-Lite in BF16, 16 heads: 2·16·1088/1152 by latents alone; 2n/b = n for prompts."""
    row = latent_row("deepseek-v2-lite", "textbook")
    limit = 2 * 16 * 1088 / 1152
    assert row.limit_flops_per_byte == pytest.approx(limit)
    assert row.decode_flops_per_byte == pytest.approx(limit)
    assert row.prefill_flops_per_byte == pytest.approx(4096)


def test_exact_latent_attention_counts_queries_outputs_and_causal_work():
    """Scores in FP32 between the parts stay on the chip: they are one kernel."""
    row = latent_row("deepseek-v2-lite", "exact")
    latents, ends = 4096 * 1152, 16 * 1088 * 2
    assert row.decode_flops_per_byte == pytest.approx(2 * 16 * 1088 * 4096 / (latents + ends))
    pairs, moved = 4096 * 4097 / 2, 4096 * 16 * 2 * 320 * 2
    assert row.prefill_flops_per_byte == pytest.approx(2 * 16 * 320 * pairs / moved)


def test_sparse_attention_does_not_grow_beyond_its_selection():
    """At 2,048 keys and at 65,536 decode does the same; the selection itself is 4 bytes a key."""
    short, far = (latent_row("glm-5", "exact", context) for context in (2048, 65_536))
    assert short.decode_flops_per_byte == pytest.approx(far.decode_flops_per_byte)
    latents, ends, chosen = 2048 * 1152, 64 * 1088 * 2, 2048 * 4
    by_hand = 2 * 64 * 1088 * 2048 / (latents + ends + chosen)
    assert far.decode_flops_per_byte == pytest.approx(by_hand)


MOE = CATALOG.find("model", "qwen3-30b-a3b")


def moe(precision: str | None = None):
    """A mixture of 128 experts, 8 a token, of 3 · 2048 · 768 weights each."""
    blocks = blocks_of(MOE, CATALOG)
    return intensity(MOE, blocks, RTX_4090, (1, 64), (128,), precision=precision)


def test_experts_are_rows_and_share_the_tokens():
    """One token reads its 8 experts: 2·8·W FLOPs over 2·8·W bytes, near one. All 128 are read long
    before 8·M/128 tokens of each reach the ridge: about 16 times 163.9, activations a little more.
    """
    rows = {(row.name, row.tokens): row for row in moe().gemms}
    one, many = rows["experts", 1], rows["experts", 64]
    assert (one.experts, one.top_k, one.depth, one.features) == (128, 8, 2048, 768)
    assert one.flops_per_byte == pytest.approx(1.0, rel=0.01)
    # 128·(1 − (120/128)^64) = 125.9 experts for 512 pairs: 512 / 125.9 = 4.07 tokens each
    assert many.flops_per_byte == pytest.approx(4.07, rel=0.01)
    assert one.crossing_tokens == pytest.approx(16 * 163.9, rel=0.05)
    assert rows["router", 1].features == 128
    assert rows["q_proj", 1].experts is None


def test_narrower_numbers_move_half_the_bytes_against_twice_the_rate():
    """330.3 TFLOP/s over 1008 GB/s; M* stays where it was but for what moves with the tokens."""
    wide, narrow = moe(), moe("fp8")
    assert narrow.ridge_flops_per_byte == pytest.approx(330.3e12 / 1008e9)
    pairs = zip(wide.gemms, narrow.gemms, strict=True)
    first, other = next(pair for pair in pairs if pair[0].name == "q_proj")
    assert other.flops_per_byte == pytest.approx(2 * first.flops_per_byte, rel=1e-6)
    assert other.crossing_tokens == pytest.approx(first.crossing_tokens, rel=0.01)
