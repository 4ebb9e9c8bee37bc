"""Commands that run deployments: importing one gives the deployment back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.importers import engine
from planner.importers.engine.command import engine_command, sayable
from planner.serving.command import EngineCommand
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import Question, ask
from planner.spec.write import written

CATALOG = Catalog.standard()
STEP = {"decode": {"batch": 8, "context": 1024}}
SHARED = {"attention_backend", "mla_backend", "mla_attention_backend"}
"""Flags that one option stands for: which of them is meant follows from the model."""
FLAGS = {
    name: {
        flag: spec
        for flag, spec in CATALOG.find("backend", name).flags.items()
        if flag in sayable(CATALOG.find("backend", name)) and flag not in SHARED
    }
    for name in ("vllm", "sglang", "tensorrt-llm")
}


def asked(**fields: object) -> Question:
    """The question of a deployment's fields."""
    data = {
        "name": "x",
        "model": "llama-3.1-8b-instruct",
        "gpu": "h100-sxm",
        "step": STEP,
        **fields,
    }
    deployment = load_text(written(data), "test", "deployment")
    return ask(deployment, CATALOG)


def back(text: str) -> dict:
    """The one deployment that a text starts, without its name."""
    (start,) = engine.starts(text, "command", {})
    found = engine.deployment(start, CATALOG, "h100-sxm", STEP)
    unread = [row for row in found.rows if row.kind in ("unknown", "unmodelled")]
    assert not unread
    return {key: value for key, value in found.data.items() if key not in ("name", "gpu", "step")}


def command(name: str, **fields: object) -> EngineCommand:
    """The command of a deployment on an engine."""
    found = engine_command(asked(backend={"name": name, **fields.pop("more", {})}, **fields))
    assert found
    return found


def test_a_command_of_vllm_says_all_that_a_deployment_has():
    found = command(
        "vllm",
        more={"version": "0.26", "flags": {"max_num_batched_tokens": 4096, "fuse_act_quant": True}},
        parallel={"tensor": 2, "data": 2},
        precision={"weights": "fp8", "activations": "fp8", "kv_cache": "fp8"},
        memory={"utilization": 0.92},
    )
    assert found.line == (
        "vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 2"
        " --data-parallel-size 2 --quantization fp8 --kv-cache-dtype fp8"
        " --gpu-memory-utilization 0.92 --max-num-batched-tokens 4096"
        " --compilation-config.pass_config.fuse_act_quant=true"
    )
    assert found.script == f"pip install vllm==0.26\n{found.line}"
    assert (found.servers, found.unsaid, found.notes) == (1, (), ())


def test_a_command_of_sglang_has_its_own_words():
    found = command("sglang", parallel={"tensor": 4}, precision={"kv_cache": "fp8"})
    assert found.line == (
        "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct"
        " --tensor-parallel-size 4 --kv-cache-dtype fp8_e4m3"
    )


def test_tensorrt_llm_reads_formats_out_of_a_checkpoint_and_replicas_are_servers():
    found = command(
        "tensorrt-llm",
        parallel={"tensor": 2, "data": 3},
        precision={"weights": "fp8", "activations": "fp8"},
        more={"flags": {"cuda_graph_enable_padding": True, "max_num_tokens": 4096}},
    )
    assert found.line == (
        "trtllm-serve meta-llama/Llama-3.1-8B-Instruct-FP8 --tp_size 2 --max_num_tokens 4096"
    )
    assert found.servers == 3
    assert found.unsaid == ("cuda_graph_config.enable_padding: true",)
    assert "checkpoint" in found.notes[0]


def test_experts_over_all_replicas_are_ranks_of_one_server():
    parallel = {"tensor": 2, "data": 4, "expert": 8}
    fields = {"model": "qwen3-30b-a3b", "parallel": parallel}
    vllm = command("vllm", **fields)
    assert "--tensor-parallel-size 2 --data-parallel-size 4 --enable-expert-parallel" in vllm.line
    sglang = command("sglang", **fields)
    # attention runs 4 times in 8 ranks: 2 each
    assert "--enable-dp-attention --expert-parallel-size 8 --tensor-parallel-size 8" in sglang.line
    for found in (vllm, sglang):
        assert found.servers == 1
        assert back(found.line)["parallel"] == parallel


def test_replicas_of_a_mixture_are_servers_since_one_server_would_share_the_experts():
    found = command("vllm", model="qwen3-30b-a3b", parallel={"tensor": 2, "data": 4})
    assert found.servers == 4
    assert "--data-parallel-size" not in found.line


def test_what_no_option_says_is_said_beside():
    found = command("vllm", parallel={"tensor": 4, "expert": 2}, model="qwen3-30b-a3b")
    assert found.unsaid == ("parallel.expert=2",)
    found = command("vllm", precision={"weights": "awq"})
    assert found.notes == ("needs a checkpoint quantised as awq",)
    found = command("vllm", precision={"weights": "bf16", "activations": "fp8"})
    assert found.unsaid == ("precision.activations=fp8",)


def test_a_backend_without_a_server_has_no_command():
    assert engine_command(asked(backend={"name": "pytorch-eager"})) is None


@pytest.mark.parametrize("model", CATALOG.names("model"))
def test_every_model_comes_back(model):
    """By its id, whatever the engine; a head for drafting has that of its model."""
    spec = CATALOG.find("model", model)
    if spec.max_context is None:
        return
    found = back(command("vllm", model=model).line)["model"]
    assert found == model.removesuffix("-mtp").removesuffix("-eagle3")


PRECISIONS = st.sampled_from(
    (
        {},
        {"weights": "fp8", "activations": "fp8"},
        {"weights": "fp8", "activations": "fp8", "kv_cache": "fp8"},
        {"kv_cache": "fp8"},
        {"weights": "bf16", "activations": "bf16"},
        {"weights": "awq"},
        {"weights": "int4", "activations": "fp16"},
        {"weights": "nvfp4", "activations": "nvfp4"},
    )
)


def _values(name: str, spec) -> list:
    """Values of a flag that a command can say: off is the default of a switch without a no."""
    if spec.type == "bool":
        return [True, False] if name == "vllm" else [True]
    return [value for value in spec.choices if value is not None] or [4096]


@st.composite
def deployments(draw):
    """A deployment as `planner choose` makes them, and a few that it does not."""
    name = draw(st.sampled_from(sorted(FLAGS)))
    tensor, data = draw(st.sampled_from(((1, 1), (2, 1), (4, 2), (8, 1), (1, 4))))
    model, expert = draw(
        st.sampled_from(
            (
                ("llama-3.1-8b-instruct", 1),
                ("qwen2.5-7b-instruct", 1),
                ("qwen3-30b-a3b", 1),
                ("qwen3-30b-a3b", tensor),
                ("qwen3-30b-a3b", tensor * data),
            )
        )
    )
    version = draw(st.sampled_from((None, CATALOG.find("backend", name).versions[-1])))
    flags = {}
    for flag in draw(st.lists(st.sampled_from(sorted(FLAGS[name])), unique=True, max_size=4)):
        flags[flag] = draw(st.sampled_from(_values(name, FLAGS[name][flag])))
    backend = {"name": name, **({"version": version} if version else {})}
    parallel = {"tensor": tensor, "data": data, "expert": expert}
    return {
        "model": model,
        "parallel": {key: size for key, size in parallel.items() if size > 1},
        "precision": draw(PRECISIONS),
        "backend": {**backend, **({"flags": flags} if flags else {})},
        "memory": draw(st.sampled_from(({}, {"utilization": 0.85}))),
    }


@settings(max_examples=many(50, 200), deadline=None)
@given(deployments())
def test_importing_a_command_gives_the_deployment_back(data):
    """All of it, but for what the command says that it cannot say, and copies of the server."""
    found = engine_command(asked(**data))
    assert found
    if found.unsaid or found.servers > 1 or any("as the checkpoint" in n for n in found.notes):
        return
    if data["backend"]["name"] == "tensorrt-llm" and data["precision"].get("weights") == "awq":
        return  # the catalogue has that checkpoint as a model of its own
    assert back(found.script) == {key: value for key, value in data.items() if value}


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("vllm", ("--node-rank", "--master-addr", "--headless")),
        ("sglang", ("--node-rank", "--dist-init-addr")),
        ("tensorrt-llm", ("mpirun", "trtllm-llmapi-launch")),
    ],
)
def test_a_server_over_nodes_is_told_how_each_is_started(backend, words):
    two = {"nodes": 2, "network": {"bandwidth": "50 GB/s", "latency": "10 us"}}
    parallel = {"tensor": 8, "pipeline": 2}
    found = engine_command(asked(backend={"name": backend}, parallel=parallel, **two))
    (note,) = [note for note in found.notes if "2 nodes" in note]
    assert all(word in note for word in words)
    if backend != "tensorrt-llm":  # mpirun's own words say it there
        assert back(found.line)["nodes"] == 2


def test_replicas_over_nodes_are_told_by_how_many_each_holds():
    two = {"nodes": 2, "network": {"bandwidth": "50 GB/s", "latency": "10 us"}}
    parallel = {"tensor": 1, "data": 16, "expert": 16}
    found = engine_command(asked(model="deepseek-v3", parallel=parallel, **two))
    assert "--data-parallel-size 16" in found.line
    assert "--data-parallel-size-local 8" in found.line
    again = back(found.line)
    assert (again["nodes"], again["parallel"]) == (2, {"data": 16, "expert": 16})
