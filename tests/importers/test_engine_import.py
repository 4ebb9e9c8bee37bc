"""Engines' command lines, as they stand in scripts and manifests, become deployments that plan."""

from pathlib import Path

import pytest

from planner.errors import PlannerError, SpecError
from planner.importers import engine
from planner.plan.assemble import assemble
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask
from planner.spec.write import written

FILES = Path(__file__).parent / "engine_files"
CATALOG = Catalog.standard()
STEP = {"decode": {"batch": 8, "context": 1024}}


def deployments(text: str, file: str = "command", **environment: str) -> list[engine.Engine]:
    found = engine.starts(text, file, environment)
    return [engine.deployment(start, CATALOG, "h100-sxm", STEP) for start in found]


def imported(text: str, **environment: str) -> engine.Engine:
    (found,) = deployments(text, **environment)
    return found


def of_file(name: str) -> list[engine.Engine]:
    return deployments((FILES / name).read_text(), name)


def at(name: str, text: str, skipped: int = 0) -> str:
    """Where a text stands in a file, found without the importer."""
    lines = (FILES / name).read_text().split("\n")
    row = next(i for i, line in enumerate(lines) if text in line)
    return f"{name}:{row + 1}:{lines[row].index(text) + skipped + 1}"


def left(found: engine.Engine) -> dict[str, tuple[str, str]]:
    """Words that did not get into the deployment: where they stand and why."""
    kinds = ("unknown", "unmodelled")
    return {row.word: (str(row.where), row.becomes) for row in found.rows if row.kind in kinds}


def test_a_shell_script_with_variables_arrays_and_continuations():
    (found,) = of_file("serve.sh")

    assert found.data == {
        "name": "llama 70b",
        "model": "llama-3.1-70b-instruct",
        "gpu": "h100-sxm",
        "parallel": {"tensor": 4},
        "precision": {"kv_cache": "fp8"},
        "backend": {
            "name": "vllm",
            "version": "0.19.0",
            "flags": {
                "attention_backend": "FLASHINFER",
                "max_model_len": 32_000,
                "max_num_seqs": 128,
                "cudagraph_mode": "FULL_DECODE_ONLY",
                "fuse_allreduce_rms": False,
                "enable_chunked_prefill": True,
            },
        },
        "memory": {"utilization": 0.92},
        "step": STEP,
    }


def test_what_a_script_says_beyond_a_deployment_is_listed_with_its_place():
    (found,) = of_file("serve.sh")
    assert left(found) == {
        "VLLM_LOGGING_LEVEL": (at("serve.sh", '  vllm serve "$', 2), "environment is not read"),
        "--frobnicate": (at("serve.sh", "--frobnicate"), "unknown"),
    }


def test_a_dockerfile_starts_what_entrypoint_and_cmd_say_together():
    (found,) = of_file("Dockerfile")

    assert found.data["model"] == "qwen2.5-32b-instruct"
    assert found.data["precision"] == {"weights": "awq"}
    assert found.data["backend"] == {
        "name": "vllm",
        "version": "0.10.2",
        "flags": {"max_model_len": 8192, "enforce_eager": True},
    }
    places = {row.word: str(row.where) for row in found.rows}
    assert places["--quantization"] == "Dockerfile:9:6"


def test_a_manifest_starts_each_of_its_containers():
    first, second = of_file("manifest.yaml")

    assert first.data["model"] == "qwen3-32b"
    assert first.data["parallel"] == {"tensor": 2}
    assert first.data["backend"] == {
        "name": "vllm",
        "version": "0.26.0",
        "flags": {"max_num_batched_tokens": 4096, "enable_prefix_caching": False},
    }
    assert second.data["backend"] == {
        "name": "sglang",
        "version": "0.5.6",
        "flags": {"context_length": 4096},
    }
    assert second.data["parallel"] == {"tensor": 2}
    assert second.data["memory"] == {"utilization": 0.8}
    places = {row.word: str(row.where) for row in second.rows}
    assert places["--context-length"] == at("manifest.yaml", "--context-length")


def test_compose_puts_its_environment_in():
    (found,) = of_file("compose.yaml")

    assert found.data["model"] == "gemma-3-27b-it"
    assert found.data["parallel"] == {"tensor": 2}
    assert found.data["memory"] == {"utilization": 0.85}
    assert found.data["backend"] == {
        "name": "tensorrt-llm",
        "version": "1.2.0",
        "flags": {"max_batch_size": 64, "max_num_tokens": 4096},
    }
    assert "that file is not here" in left(found)["--extra_llm_api_options"][1]


@pytest.mark.parametrize(
    "name", ["serve.sh", "trtllm.sh", "Dockerfile", "manifest.yaml", "compose.yaml"]
)
def test_what_is_printed_plans(name):
    for found in of_file(name):
        text = written(found.data, found.comments)
        plan = assemble(ask(load_text(text, "deploy.yaml", "deployment"), CATALOG))
        assert plan.step.time_s > 0


@pytest.mark.parametrize(
    "words",
    [
        "--tensor-parallel-size 2 --enforce-eager --max-num-seqs 64",
        "--tensor_parallel_size=2 --enforce_eager --max_num_seqs=64",
        "-tp=2 --enforce-eager=True --max-num-seqs '64'",
        "--max-num-seqs 64 --enforce-eager true -tp 2",
        "-tp 2 -O0 --max-num-seqs 64",
    ],
)
def test_every_spelling_says_the_same(words):
    found = imported(f"vllm serve Qwen/Qwen3-8B {words}")
    assert found.data["parallel"] == {"tensor": 2}
    assert found.data["backend"]["flags"] == {"enforce_eager": True, "max_num_seqs": 64}
    assert not left(found)


@pytest.mark.parametrize(
    "words",
    [
        """--compilation-config '{"cudagraph_mode": "FULL", "pass_config": {"fuse_norm_quant": true}}'""",
        "--compilation-config.cudagraph_mode FULL --compilation-config.pass_config.fuse_norm_quant=true",
        "-O.cudagraph_mode=FULL -cc.pass_config.fuse_norm_quant true",
    ],
)
def test_json_and_dots_say_the_same(words):
    found = imported(f"vllm serve Qwen/Qwen3-8B {words}")
    assert found.data["backend"]["flags"] == {"cudagraph_mode": "FULL", "fuse_norm_quant": True}


@pytest.mark.parametrize(
    ("line", "parallel"),
    [
        ("vllm serve Qwen/Qwen3-8B -tp 2 -dp 4 --enable-expert-parallel", {"tensor": 2, "expert": 8, "data": 4}),
        ("vllm serve Qwen/Qwen3-8B -tp 2 -pp 2", {"tensor": 2, "pipeline": 2}),
        # eight ranks that run attention as four replicas of two: 8 / 4 = 2
        ("python -m sglang.launch_server --model Qwen/Qwen3-8B --tp 8 --dp 4 --enable-dp-attention", {"tensor": 2, "data": 4}),
        # one set of experts over all ranks, cut or shared out
        ("vllm serve deepseek-ai/DeepSeek-V3 -dp 8", {"data": 8, "expert": 8}),
        ("python -m sglang.launch_server --model deepseek-ai/DeepSeek-V3 --tp 8 --dp 8 --enable-dp-attention", {"data": 8, "expert": 8}),
        ("python -m sglang.launch_server --model deepseek-ai/DeepSeek-V3 --tp 8 --dp 2", {"tensor": 8, "data": 2}),
        ("python -m sglang.launch_server --model Qwen/Qwen3-8B --tp-size 8 --ep-size 8", {"tensor": 8, "expert": 8}),
        ("trtllm-serve serve Qwen/Qwen3-8B --tp_size 4 --ep_size 4 --pp_size 2", {"tensor": 4, "pipeline": 2, "expert": 4}),
        ("vllm serve Qwen/Qwen3-8B -tp 16 -dcp 2 --cp-kv-cache-interleave-size 16", {"tensor": 16, "context": 2}),
        ("vllm serve Qwen/Qwen3-8B -tp 2 --prefill-context-parallel-size 4", {"tensor": 2, "prefill_context": 4}),
        # experts over the ranks of all groups
        ("vllm serve Qwen/Qwen3-8B -tp 2 -pcp 4 --enable-expert-parallel", {"tensor": 2, "expert": 8, "prefill_context": 4}),
        ("python -m sglang.launch_server --model Qwen/Qwen3-8B --tp 8 --dcp-size 8", {"tensor": 8, "context": 8}),
        ("trtllm-serve serve Qwen/Qwen3-8B --tp_size 4 --cp_size 2", {"tensor": 4}),
        ("trtllm-serve deepseek-ai/DeepSeek-V3 --tp_size 8 --ep_size 8 --enable_attention_dp", {"expert": 8, "data": 8}),
    ],
)  # fmt: skip
def test_ranks_are_shared_as_each_engine_says_it(line, parallel):
    assert imported(line).data["parallel"] == parallel


def test_a_pass_of_the_compiler_is_a_flag_and_a_size_not_carried_over_is_listed():
    given = '\'{"pass_config": {"enable_sp": true, "sp_min_token_num": 512}}\''
    found = imported(f"vllm serve Qwen/Qwen3-8B -tp 2 --compilation-config {given}")
    assert found.data["backend"]["flags"] == {"enable_sp": True, "sp_min_token_num": 512}
    left = imported("trtllm-serve serve Qwen/Qwen3-8B --tp_size 4 --cp_size 2").rows
    assert [(row.value, row.kind) for row in left if "cp" in row.word] == [("2", "unmodelled")]


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        ('["+quant_fp8", "+rms_norm"]', {"custom_ops": "+rms_norm,+quant_fp8"}),
        ('["all"]', {"custom_ops": "+rms_norm,+quant_fp8"}),
        ('["+rms_norm"]', {"custom_ops": "+rms_norm"}),
        ('["none"]', None),
        ('["+silu_and_mul"]', None),
        ('["+quant_fp8"]', None),
        ("0", None),
    ],
)
def test_custom_ops_are_a_list_of_which_two_operators_count(given, flags):
    found = imported(f"vllm serve Qwen/Qwen3-8B -O '{{\"custom_ops\": {given}}}'")
    assert found.data["backend"].get("flags") == flags
    listed = [row.kind for row in found.rows if "custom" in row.word or "O" in row.word]
    assert listed == ["set" if flags else "silent" if "none" in given else "unmodelled"]


def test_the_recipe_of_llama_on_blackwell_is_read_whole():
    """vLLM's recipe of 2025 for B200, as issue 25689 quotes it, in words that passes had then."""
    passes = '"enable_fi_allreduce_fusion": true, "enable_attn_fusion": true, "enable_noop": true'
    ops, mode = '["+quant_fp8", "+rms_norm"]', '"FULL_DECODE_ONLY"'
    config = f'{{"pass_config": {{{passes}}}, "custom_ops": {ops}, "cudagraph_mode": {mode}}}'
    found = imported(
        f"vllm serve nvidia/Llama-3.3-70B-Instruct-FP8 --compilation-config '{config}'"
    )
    assert found.data["precision"]["scales"] == "tensor"
    assert found.data["backend"]["flags"] == {
        "fuse_allreduce_rms": True,
        "fuse_attn_quant": True,
        "custom_ops": "+rms_norm,+quant_fp8",
        "cudagraph_mode": "FULL_DECODE_ONLY",
    }
    assert {row.kind for row in found.rows} <= {"set", "silent"}


@pytest.mark.parametrize(
    ("words", "precision"),
    [
        # quantised anew, of a checkpoint in FP8; and that checkpoint under a longer name
        ("nvidia/DeepSeek-R1-FP4", {"weights": "nvfp4", "activations": "nvfp4"}),
        ("deepseek-ai/DeepSeek-R1-FP8", None),
        ("Qwen/Qwen3-8B --kv-cache-dtype nvfp4", {"kv_cache": "nvfp4"}),
        ("Qwen/Qwen3-8B", None),
        ("Qwen/Qwen3-8B --dtype auto --kv-cache-dtype auto", None),
        ("Qwen/Qwen3-8B --dtype half", {"weights": "fp16", "activations": "fp16"}),
        ("Qwen/Qwen3-8B -q fp8 --kv-cache-dtype fp8_e4m3", {"weights": "fp8", "activations": "fp8", "kv_cache": "fp8"}),
        ("Qwen/Qwen3-14B-FP8", {"weights": "fp8", "activations": "fp8"}),
        ("Qwen/Qwen3-14B-AWQ --dtype float16", {"weights": "awq", "activations": "fp16"}),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", {"weights": "int8"}),
        ("unsloth/Qwen3-14B-bnb-4bit", {"weights": "nf4"}),
        ("Qwen/Qwen3-14B -q gptq_marlin", {"weights": "int4"}),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", {"weights": "int8", "activations": "int8"}),
        ("RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16", {"weights": "int4"}),
        ("nvidia/Llama-3.3-70B-Instruct-FP4", {"weights": "nvfp4", "activations": "nvfp4"}),
        ("neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8-dynamic", {"weights": "fp8", "activations": "fp8"}),
        # NVIDIA's hold the scale of activations
        ("nvidia/Llama-3.1-8B-Instruct-FP8", {"weights": "fp8", "activations": "fp8", "scales": "tensor"}),
    ],
)  # fmt: skip
def test_formats_come_from_flags_and_from_the_models_name(words, precision):
    found = imported(f"vllm serve {words}")
    assert found.data.get("precision") == precision
    assert found.data["model"] in CATALOG.names("model")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b-instruct"),
        ("META-LLAMA/llama-3.1-8b-instruct", "llama-3.1-8b-instruct"),
        ("/models/Llama-3.1-8B-Instruct/", "llama-3.1-8b-instruct"),
        ("meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b-instruct"),
        ("Qwen/Qwen2.5-7B", "qwen2.5-7b-instruct"),
        ("google/gemma-2-9b", "gemma-2-9b-it"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "mistralai/Mistral-7B-Instruct-v0.2"),
        ("acme/unheard-of-9b", "acme/unheard-of-9b"),
    ],
)
def test_a_model_is_known_by_its_id_or_its_last_part(name, known):
    found = imported(f"vllm serve {name}")
    assert found.data["model"] == known
    told = "\n".join(found.comments.get("model", []))
    assert ("./config.json" in told) == (known == name)


def test_a_folder_with_a_config_is_named_by_that_config(tmp_path):
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    found = imported(f"vllm serve {tmp_path}")
    assert found.data["model"] == str(tmp_path / "config.json")


def test_a_latency_benchmark_is_a_static_batch():
    found = engine.starts(
        "vllm bench latency --model Qwen/Qwen3-8B --batch-size 4 --input-len 512", "c", {}
    )
    made = engine.deployment(found[0], CATALOG, None)
    # the benchmark's own default is 128 tokens of output
    assert made.data["workload"] == {"batch": 4, "input": 512, "output": 128}
    assert made.data["gpu"] == "?"


def test_gaps_are_told_by_the_loader_with_what_fills_them():
    start = engine.starts("vllm serve Qwen/Qwen3-8B", "c", {})[0]
    made = engine.deployment(start, CATALOG, None)
    with pytest.raises(SpecError) as caught:
        load_text(written(made.data, made.comments), "deploy.yaml", "deployment")
    told = str(caught.value)
    assert "gpu: is still to be filled in (a name of `planner catalog list gpus`" in told
    assert "missing a step or a workload (as in step: {decode:" in told


def test_a_docker_run_line_and_its_environment():
    found = imported(
        "docker run --gpus all -e VLLM_ATTENTION_BACKEND=TRITON_ATTN -p 8000:8000 "
        "vllm/vllm-openai:v0.10.1.1 --model Qwen/Qwen3-8B --max-num-seqs 16"
    )
    assert found.data["backend"] == {
        "name": "vllm",
        "version": "0.10.1",
        "flags": {"attention_backend": "TRITON_ATTN", "max_num_seqs": 16},
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("vllm serve Qwen/Qwen3-8B -tp two", "command:1:30: --tensor-parallel-size: 'two' is no whole number"),
        ("vllm serve Qwen/Qwen3-8B -tp", "command:1:26: --tensor-parallel-size has no value"),
        ("vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 90", "'90' is no share between 0 and 1"),
        ("vllm serve Qwen/Qwen3-8B -tp $TP", "command:1:30: --tensor-parallel-size: TP is not set in this text (--env TP=VALUE)"),
        ("vllm serve Qwen/Qwen3-8B -tp $1", "command:1:30: --tensor-parallel-size: $1 is not set in this text (--env 1=VALUE)"),
        ("vllm serve Qwen/Qwen3-8B -tp 0", "command:1:30: --tensor-parallel-size: must be at least 1"),
        ("vllm serve Qwen/Qwen3-8B --dtype int3", "--dtype: 'int3' is no format known here"),
        ("vllm serve Qwen/Qwen3-8B -q zip", "--quantization: 'zip' is no quantisation known here"),
        ("vllm serve --port 80", "command:1:1: serve names no model (as in --model ORG/NAME)"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_read_is_told_at_its_place(line, said):
    with pytest.raises(PlannerError) as caught:
        imported(line)
    assert said in str(caught.value)


@pytest.mark.parametrize("value", ["auto", "-1"])
def test_a_number_left_to_the_engine_is_listed(value):
    found = imported(f"vllm serve Qwen/Qwen3-8B --max-model-len {value} --served-model-name a b")
    assert list(left(found)) == ["--max-model-len"]
    assert found.data["name"] == "a"


def test_a_compose_string_of_options_and_a_container_that_only_sleeps():
    text = (
        "services:\n  llm:\n    image: vllm/vllm-openai:v0.19.0\n"
        "    command: --model Qwen/Qwen3-8B --tensor-parallel-size 2\n"
        "  idle:\n    image: vllm/vllm-openai:v0.19.0\n    command: sleep 3600\n"
    )
    (found,) = deployments(text, "compose.yaml")
    assert found.data["parallel"] == {"tensor": 2}
    places = {row.word: str(row.where) for row in found.rows}
    assert places["--tensor-parallel-size"] == "compose.yaml:4:36"


def test_a_misspelt_option_is_listed_with_the_one_that_may_be_meant():
    found = imported("vllm serve Qwen/Qwen3-8B --max-num-seq 4 --nonsense a b")
    assert left(found) == {
        "--max-num-seq": ("command:1:26", "unknown; did you mean --max-num-seqs?"),
        "--nonsense": ("command:1:42", "unknown"),
        "b": ("command:1:55", "a word that belongs to no option"),
    }


def test_no_word_is_dropped():
    line = "vllm serve Qwen/Qwen3-8B -tp 2 --port 8000 --zzz 1 stray --enforce-eager --seed 7"
    shown = [word for row in imported(line).rows for word in (row.word, *row.value.split())]
    assert [word for word in line.split()[2:] if word not in shown] == []


def test_a_repository_stands_for_its_model_not_for_a_head_that_it_holds_too():
    """DeepSeek-V3's repository holds its MTP module, which the catalogue describes by itself."""
    assert imported("vllm serve deepseek-ai/DeepSeek-V3 -tp 8").data["model"] == "deepseek-v3"


@pytest.mark.parametrize(
    ("words", "flags", "why"),
    [
        ("--language-model-only", {"language_model_only": True}, None),
        ('--limit-mm-per-prompt \'{"image": 0, "video": 0}\'', {"language_model_only": True}, None),
        ("--limit-mm-per-prompt image=0,video=0", {"language_model_only": True}, None),
        (
            '--limit-mm-per-prompt \'{"image": {"count": 0}, "video": 0, "audio": 1}\'',
            {"language_model_only": True},
            None,
        ),
        ("--limit-mm-per-prompt '{\"image\": 4}'", None, None),
        ("--limit-mm-per-prompt nonsense", None, None),
        # Qwen's towers read videos too, and are loaded for those
        ("--limit-mm-per-prompt '{\"image\": 0}'", None, "some models hold a tower still"),
    ],
)
def test_a_tower_without_any_images_is_not_held(words, flags, why):
    found = imported(f"vllm serve google/gemma-3-27b-it {words}")
    assert found.data["backend"].get("flags") == flags
    told = [reason for _, reason in left(found).values()]
    assert [each[: len(why)] for each in told] == [why] if why else not told
