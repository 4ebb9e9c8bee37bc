"""Interpolated steps against the plan's own."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.clock import NONE, Tick
from planner.serving.timetable import PromptLoad, Timetable


@dataclass
class Linear:
    """A machine whose steps are linear: 5 ms, 0.1 ms a sequence, 1 us for a hundred keys of one,
    and for each prompt token 10 us and 1 ns for each key that it sees.
    """

    asked: set = field(default_factory=set)

    def tick(self, decoding, context, prompts=NONE):
        self.asked.add((decoding, context, prompts))
        reach = prompts.before + prompts.tokens / 2
        time_s = 5e-3 + 1e-4 * decoding + 1e-8 * decoding * context
        time_s += prompts.total * (1e-5 + 1e-9 * reach)
        return Tick(time_s, None, None, 0.0, time_s, 2e-3 + 1e-6 * prompts.total)

    @property
    def host(self):
        class Host:
            @staticmethod
            def loop_s(decoding, prompts):
                return 1e-3 * decoding + 2e-3 * prompts

        return Host

    @property
    def scheduler(self):
        class Rules:
            decode_steps = 2

        return Rules

    @staticmethod
    def wall_s(device_s, host_s):
        return device_s + host_s

    @staticmethod
    def ahead_s(device_s, host_s):
        return max(0.0, device_s - host_s)


def near(decoding, context):
    return 5e-3 * (decoding > 0) + 1e-4 * decoding + 1e-8 * decoding * context


@given(st.integers(1, 500), st.floats(1, 100_000))
def test_a_linear_machine_is_met_exactly_by_lines(decoding, context):
    # within one cell of the grid both axes are lines: only their product bends, and that is met too
    found = Timetable(Linear(), 1000).took(decoding, context)
    assert found.device_s == pytest.approx(near(decoding, context), rel=1e-9)
    # the host: 1 ms a sequence, asked once for two decode steps
    assert found.wall_s - found.device_s == pytest.approx(1e-3 * decoding / 2)


@given(st.integers(1, 200), st.integers(1, 8), st.integers(16, 4000), st.integers(0, 20_000))
def test_prompts_come_on_top(decoding, count, tokens, before):
    load = PromptLoad.of([(tokens, before)] * count)
    assert (load.count, load.tokens) == (count, count * tokens)
    assert load.reach == pytest.approx(before + tokens / 2)
    found = Timetable(Linear(), 1000).took(decoding, 1000, load)
    more_s = count * tokens * (1e-5 + 1e-9 * load.reach)
    # keys grow with the square of a prompt's tokens: the line lies above by a little
    assert found.device_s == pytest.approx(near(decoding, 1000) + more_s, rel=0.01)
    assert found.wall_s - found.device_s == pytest.approx(1e-3 * decoding + 2e-3 * count)


def test_prompts_are_launched_while_others_decode():
    """Of a step of 400 prompt tokens alone the GPU waits 2.4 ms for launches. One sequence with
    1,000 keys decodes for 5 + 0.1 + 0.01 = 5.11 ms, half a millisecond of which the loop takes, as
    it is asked once in two steps: the launches begin 4.61 ms before, and no wait is left.
    """
    table = Timetable(Linear(), 1000)
    decoded = table.took(1, 1000)
    alone = table.took(0, 0, PromptLoad.of([(400, 0)]))
    assert decoded.ahead_s == pytest.approx(4.61e-3)
    assert (alone.starved_s, alone.ahead_s) == pytest.approx((2.4e-3, 0.0))
    sooner = alone.after(decoded)
    assert alone.device_s - sooner.device_s == pytest.approx(2.4e-3)
    assert alone.wall_s - sooner.wall_s == pytest.approx(2.4e-3)
    assert alone.after(alone) == alone


def test_only_points_that_are_touched_are_planned():
    machine = Linear()
    times = Timetable(machine, 1000)
    for context in range(1024, 2048):
        times.took(8, context)
    assert len(machine.asked) == 2


def test_a_load_of_several_prompts_weighs_their_keys_by_their_tokens():
    # 100 tokens seeing 50 keys on average, 300 seeing 1,150: (100 · 50 + 300 · 1,150) / 400
    assert PromptLoad.of([(100, 0), (300, 1000)]).reach == pytest.approx(875)
    assert PromptLoad.of([]).count == 0
