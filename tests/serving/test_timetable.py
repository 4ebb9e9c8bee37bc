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
        return Tick(time_s, None, None, 0.0, time_s)

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
