"""`planner explain`: a kernel of a file's plan or of a stored one."""

import json

import pytest


def test_a_kernel_of_a_file_is_explained_in_five_steps(run, deployment):
    outcome = run("explain", "down_proj", deployment)
    assert (outcome.code, outcome.err) == (0, "")
    shown = outcome.out
    for part in ("1. FLOPs", "2. Bytes of HBM", "3. Roofline", "4. Kernel model", "5. Its time"):
        assert part in shown
    # Qwen2.5-0.5B: 2 × 4864 × 4 × 896 = 34.87 MFLOP over 165.2 TFLOP/s = 0.211 us
    assert "2 × 4,864 × 4 × 896" in shown
    assert "34.87 MFLOP / 165.2 TFLOP/s (bf16) = 211.0 ns" in shown
    assert "l40s-vllm: gemm.bf16 (class), measured on l40s" in shown


def test_the_json_holds_the_row_of_the_plan(run, deployment):
    plan = json.loads(run("plan", deployment, "--no-advice", "--json").out)
    row = next(kernel for kernel in plan["kernels"] if kernel["nodes"] == ["down_proj"])
    document = json.loads(run("explain", "down_proj", deployment, "--json").out)
    assert (document["kind"], document["plan_id"]) == ("explain", plan["plan_id"])
    assert document["explained"]["kernel"] == row
    assert document["others"] == []


@pytest.mark.parametrize("model", ["calibrated", "roofline"])
def test_a_stored_plan_is_explained_by_its_own_cost_model(run, deployment, model):
    plan = json.loads(run("plan", deployment, "--model", model, "--no-advice", "--json").out)
    for words in ((plan["plan_id"][:6],), ()):  # by its id, and as the newest
        document = json.loads(run("explain", "lm_head", *words, "--json").out)
        assert document["plan_id"] == plan["plan_id"]
        assert document["explained"]["kernel"] in plan["kernels"]
        assert document["notes"] == []


def test_other_kernels_of_the_word_are_named(run, deployment):
    shown = run("explain", "input_norm", deployment).out
    assert "the word names others too: layer/" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("down_prj", "chat.yaml"), "did you mean 'down_proj'?"),
        (("down_proj", "absent.yaml"), "absent.yaml"),
        (("down_proj", "ffff"), "ffff"),
        (("down_proj",), "no plan is stored (name a deployment's file)"),
        (("down_proj", "--set", "gpu=l4"), "--set changes a file"),
    ],
)
def test_a_question_put_wrong_ends_with_2(run, deployment, words, said):
    outcome = run("explain", *words)
    assert outcome.code == 2
    assert said in outcome.err
