"""Plans of models whose layers keep a state: which kernel prices them, and how sure that is."""

import pytest

from planner.plan.assemble import assemble
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()


def plan(model, gpu, backend, step="{prefill: {batch: 1, tokens: 4096}}"):
    text = f"model: {model}\ngpu: {gpu}\nbackend: {{{backend}}}\nstep: {step}\n"
    return assemble(ask(load_text(text, "d.yaml", "deployment"), CATALOG))


def row(found, node):
    return next(each for each in found.kernels if node in each.nodes)


@pytest.mark.parametrize(
    ("gpu", "backend", "evidence", "measured_us"),
    [
        # vllm pull 32846 on Hopper, 40717 on datacentre Blackwell; before them the chain, which
        # SGLang's table has of the same GPU
        ("h200-sxm", "name: vllm, version: '0.26'", "calibrated", 203.9),
        ("b200-sxm", "name: vllm, version: '0.26'", "calibrated", 173.7),
        ("b200-sxm", "name: vllm, version: '0.19'", "class", 308.5),
        ("b200-sxm", "name: sglang, version: '0.5.9'", "calibrated", 308.5),
    ],
)
def test_the_delta_rule_takes_what_its_kernel_was_measured_at(gpu, backend, evidence, measured_us):
    """Qwen3.5-4B: 32 heads and 16 of keys, 4,096 tokens: `gdn_perf` of aiconfigurator-core 0.12.
    Beyond the kernel a plan counts starts in an eager step, some 2 us a launch.
    """
    found = plan("qwen3.5-4b", gpu, backend)
    kernel = row(found, "delta_rule")
    assert kernel.evidence == evidence
    assert 0.85 * measured_us < kernel.time_s * 1e6 < 1.15 * measured_us + 7 * 2
    assert kernel.low_s < kernel.time_s < kernel.high_s
    assert found.step.low_s < found.step.time_s < found.step.high_s


@pytest.mark.parametrize("model", ["kimi-linear-48b-a3b", "nemotron-3-nano-30b-a3b"])
def test_what_no_table_times_has_no_interval(model):
    found = plan(model, "b200-sxm", "name: vllm, version: '0.19'")
    assert found.step.low_s is None
    assert any(each.evidence == "datasheet" for each in found.kernels)
