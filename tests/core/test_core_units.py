"""Quantities as people write them: every prefix, every refusal, and back to text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import units
from planner.units import (
    BYTES,
    BYTES_PER_S,
    DIMENSIONS,
    FLOPS_PER_S,
    HERTZ,
    PRICE_PER_HOUR,
    SECONDS,
    SPAN,
    WATTS,
)

LARGE = {
    "": 1,
    "k": 10**3,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
}
BINARY = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4, "Pi": 1024**5}
SMALL = {"": 1, "m": 10**3, "u": 10**6, "µ": 10**6, "μ": 10**6, "n": 10**9}


@pytest.mark.parametrize(("prefix", "factor"), [*LARGE.items(), *BINARY.items()])
def test_bytes_take_decimal_and_binary_prefixes(prefix, factor):
    assert BYTES.parse(f"3 {prefix}B") == 3 * factor
    assert BYTES_PER_S.parse(f"3 {prefix}B/s") == 3 * factor


@pytest.mark.parametrize(("prefix", "factor"), LARGE.items())
@pytest.mark.parametrize("base", ["FLOP/s", "FLOPS", "OP/s", "OPS"])
def test_compute_rates_take_decimal_prefixes_alone(prefix, factor, base):
    assert FLOPS_PER_S.parse(f"2 {prefix}{base}") == 2 * factor


@pytest.mark.parametrize(("prefix", "factor"), LARGE.items())
def test_frequency_and_power_take_decimal_prefixes(prefix, factor):
    assert HERTZ.parse(f"5 {prefix}Hz") == 5 * factor
    assert WATTS.parse(f"5 {prefix}W") == 5 * factor


def test_power_knows_milliwatts_so_that_m_is_not_mega():
    assert WATTS.parse("5 mW") == pytest.approx(0.005)
    assert WATTS.parse("5 MW") == 5e6


@pytest.mark.parametrize(("prefix", "factor"), SMALL.items())
def test_times_take_small_prefixes_and_both_spellings_of_micro(prefix, factor):
    assert SECONDS.parse(f"7 {prefix}s") == pytest.approx(7 / factor, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "usd_per_hour"),
    [
        ("0.69 USD/h", 0.69),
        ("0.69 USD/hour", 0.69),
        ("0.69 $/h", 0.69),
        ("24 USD/day", 1.0),
        ("730 USD/month", 1.0),  # 365 days × 24 h / 12 months = 730 h
    ],
)
def test_prices_come_out_per_hour(text, usd_per_hour):
    assert PRICE_PER_HOUR.parse(text) == pytest.approx(usd_per_hour)


def test_gb_and_gib_differ_by_seven_percent():
    assert BYTES.parse("24 GB") == 24_000_000_000
    assert BYTES.parse("24 GiB") == 25_769_803_776


@pytest.mark.parametrize(
    "text", ["3.35 TB/s", "3.35TB/s", "  3.35   TB/s ", "3_350 GB/s", "3.35e3 GB/s"]
)
def test_spelling_of_number_and_space_is_free(text):
    assert BYTES_PER_S.parse(text) == pytest.approx(3.35e12)


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda d: d.name)
def test_each_dimension_reads_its_own_example(dimension):
    assert dimension.parse(dimension.example) > 0


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda d: d.name)
@pytest.mark.parametrize("bare", [5, 0, 2.5, "5", "2.5e3"])
def test_a_bare_number_is_refused_since_it_needs_its_unit(dimension, bare):
    with pytest.raises(ValueError) as refusal:
        dimension.parse(bare)
    assert str(refusal.value) == f"a {dimension.name} needs its unit, as in '{dimension.example}'"


@pytest.mark.parametrize("value", [True, False, None, [], {}])
def test_what_is_no_quantity_at_all_is_refused_with_an_example(value):
    with pytest.raises(ValueError, match=r"^not a time; write one as in '4.5 us'$"):
        SECONDS.parse(value)


@pytest.mark.parametrize(
    "text", ["", "GB", "fast", "1.2.3 GB", "1 2 GB", "--5 GB", "nan GB", "0x10 B"]
)
def test_a_text_that_is_no_quantity_is_refused(text):
    with pytest.raises(ValueError):
        BYTES.parse(text)


def test_a_unit_of_another_dimension_is_named():
    with pytest.raises(ValueError) as refusal:
        BYTES.parse("3 TB/s")
    assert (
        str(refusal.value)
        == "'TB/s' is a unit of bandwidth, not of number of bytes (as in '24 GiB')"
    )


def test_an_unknown_unit_is_named():
    with pytest.raises(ValueError) as refusal:
        BYTES_PER_S.parse("3 Tb/s")
    assert str(refusal.value) == "unknown unit 'Tb/s' for a bandwidth, as in '3.35 TB/s'"


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda d: d.name)
def test_a_negative_amount_is_refused(dimension):
    number, unit = dimension.example.split()
    with pytest.raises(
        ValueError, match=f"^a {dimension.name} must (not be negative|be greater than 0)$"
    ):
        dimension.parse(f"-{number} {unit}")


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda d: d.name)
def test_nought_is_a_cost_but_no_rate(dimension):
    text = f"0 {dimension.example.split()[1]}"
    if dimension in (BYTES_PER_S, FLOPS_PER_S, HERTZ):
        with pytest.raises(ValueError, match=r"must be greater than 0$"):
            dimension.parse(text)
    else:
        assert dimension.parse(text) == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("36h", 36 * 3600), ("90d", 90 * 24 * 3600), ("2 w", 14 * 24 * 3600), ("0d", 0)],
)
def test_spans_of_time_are_hours_days_and_weeks(text, seconds):
    """No seconds: what is asked is how old something must be."""
    assert SPAN.parse(text) == seconds
    with pytest.raises(ValueError, match=r"^'s' is a unit of time, not of span of time"):
        SPAN.parse("5s")


def test_an_amount_beyond_floats_is_refused():
    with pytest.raises(ValueError, match=r"^a bandwidth that large cannot be$"):
        BYTES_PER_S.parse("1e999 TB/s")


@given(st.floats(min_value=1e-3, max_value=1e6))
def test_a_number_survives_the_way_through_text(number):
    assert BYTES.parse(f"{number!r} GiB") == number * 2**30


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (units.show_bytes(15_231_233_024), "14.2 GiB"),  # 15,231,233,024 / 2^30 = 14.185
        (units.show_bytes(2**30 - 1), "1,024 MiB"),
        (units.show_bytes(1023), "1,023 B"),
        (units.show_bytes(3 * 2**50), "3.00 PiB"),
        (units.show_bytes(0), "0 B"),
        (units.show_bytes(-(2**31)), "-2.00 GiB"),
        (units.show_bandwidth(1.008e12), "1.01 TB/s"),
        (units.show_bandwidth(864e9), "864 GB/s"),
        (units.show_flops(2.4e11), "240 GFLOP"),
        (units.show_flops(1.5), "1.50 FLOP"),
        (units.show_flops_per_s(165.2e12), "165 TFLOP/s"),
        (units.show_flops_per_s(165.2e12, digits=4), "165.2 TFLOP/s"),
        (units.show_flops_per_s(2e18), "2.00 EFLOP/s"),
        (units.show_seconds(8e9 / 864e9), "9.26 ms"),  # 8e9 / 864e9 = 0.009259 s
        (units.show_seconds(4.5e-6), "4.50 us"),
        (units.show_seconds(90e-9), "90.0 ns"),
        (units.show_seconds(75.0), "75.0 s"),
        (units.show_seconds(0), "0 s"),
        (units.show_seconds(math.inf), "inf s"),
        (units.show_bytes(math.inf), "inf PiB"),
        (units.show_count(7_615_616_512), "7.62 B"),
        (units.show_count(1.2e12), "1.20 T"),
        (units.show_count(350e6), "350 M"),
        (units.show_count(2048), "2.05 k"),
        (units.show_count(12), "12.0"),
    ],
)
def test_a_value_is_shown_in_the_unit_a_reader_expects(shown, text):
    assert shown == text


@given(st.floats(min_value=1, max_value=1e18))
def test_a_shown_bandwidth_reads_back_to_its_digits(value):
    text = units.show_bandwidth(value, digits=6).replace(",", "")
    assert BYTES_PER_S.parse(text) == pytest.approx(value, rel=1e-5)
