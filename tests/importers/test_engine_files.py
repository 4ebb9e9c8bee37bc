"""Files of options that a command line names: written by the script, a ConfigMap, or beside it."""

import pytest

from planner.errors import PlannerError
from planner.importers import engine
from planner.spec.catalog import Catalog

CATALOG = Catalog.standard()
STEP = {"decode": {"batch": 8, "context": 1024}}
EXTRA = """\
enable_attention_dp: true
kv_cache_config:
  dtype: fp8
  free_gpu_memory_fraction: 0.7
  enable_block_reuse: false
cuda_graph_config: {enable_padding: true, max_batch_size: 256}
moe_config: {backend: TRTLLM}
speculative_config: {decoding_type: MTP}
colour: blue
"""
SCRIPT = f"""\
EXTRA=/tmp/extra.yml
cat > $EXTRA <<EOF
{EXTRA}EOF
trtllm-serve deepseek-ai/DeepSeek-V3 --tp_size 8 --ep_size 8 --extra_llm_api_options /tmp/extra.yml
"""
ASKED = {
    "parallel": {"expert": 8, "data": 8},
    "precision": {"kv_cache": "fp8"},
    "memory": {"utilization": 0.7},
    "backend": {
        "name": "tensorrt-llm",
        "flags": {
            "enable_block_reuse": False,
            "cuda_graph_enable_padding": True,
            "cuda_graph_max_batch_size": 256,
            "moe_backend": "TRTLLM",
        },
    },
}


def imported(text: str, file: str = "serve.sh", **beside: str) -> engine.Engine:
    files = {
        f"{name}.yaml": engine.Places.of(text, f"{name}.yaml") for name, text in beside.items()
    }
    (start,) = engine.starts(text, file, {})
    return engine.deployment(start, CATALOG, "h200-sxm", STEP, files.get)


def left(found: engine.Engine) -> dict[str, str]:
    return {row.word: f"{row.where}: {row.becomes}" for row in found.rows if row.kind == "unknown"}


@pytest.mark.parametrize(
    "writes",
    ["cat > $EXTRA <<EOF", "cat >$EXTRA<<'EOF'", 'cat <<EOF >> "$EXTRA"', "tee $EXTRA << EOF",
     "cat <<EOF | tee $EXTRA"],
)  # fmt: skip
def test_a_script_writes_the_options_it_hands_over(writes):
    """Attention runs once in each of 8 ranks: 8 replicas of it, and experts over all of them."""
    found = imported(SCRIPT.replace("cat > $EXTRA <<EOF", writes))
    assert {key: found.data[key] for key in ASKED} == ASKED
    assert left(found) == {"colour": "serve.sh:11:1: unknown"}
    unmodelled = [row.word for row in found.rows if row.kind == "unmodelled"]
    assert unmodelled == ["speculative-config"]


def test_variables_are_put_in_unless_the_heredoc_is_quoted():
    line = "trtllm-serve Qwen/Qwen3-8B --config o.yml\n"
    said = "N=32\ncat > o.yml <<{}\nmax_batch_size: $N\nEOF\n" + line
    assert imported(said.format("EOF")).data["backend"]["flags"] == {"max_batch_size": 32}
    with pytest.raises(PlannerError, match=r"serve.sh:3:17: .*'\$N' is no whole number"):
        imported(said.format("'EOF'"))


def test_a_config_map_holds_the_file_that_a_container_is_started_with():
    lines = "".join(f"    {line}\n" for line in EXTRA.splitlines())
    text = (
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  extra.yml: |\n" + lines + "---\nkind: Pod\nspec:"
        "\n  containers:\n  - image: tensorrt-llm/release:1.1.0\n    command: [trtllm-serve,"
        " deepseek-ai/DeepSeek-V3, --tp_size, '8', --ep_size, '8', --config, /etc/extra.yml]\n"
    )
    found = imported(text, "pod.yaml")
    assert found.data["parallel"] == ASKED["parallel"]
    assert left(found) == {"colour": "pod.yaml:13:5: unknown"}


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        # TensorRT-LLM puts the file's options over those of the line, vLLM the other way round
        ("trtllm-serve Qwen/Qwen3-8B --max_batch_size 64 --config a.yaml", {"max_batch_size": 8}),
        ("vllm serve Qwen/Qwen3-8B --config b.yaml --max-num-seqs 64", {"max_num_seqs": 64}),
        ("trtllm-serve Qwen/Qwen3-8B --config c.yaml", {"cuda_graph": False}),
        ("vllm serve Qwen/Qwen3-8B --config d.yaml", {"enforce_eager": False, "cudagraph_mode": "FULL"}),
        ("sglang serve --config e.yaml", {"disable_radix_cache": True, "chunked_prefill_size": 4096}),
    ],
)  # fmt: skip
def test_options_of_a_file_are_those_of_the_line(line, flags):
    found = imported(
        line,
        a="max_batch_size: 8\n",
        b="max-num-seqs: 8\n",
        c="cuda_graph_config: null\nmax_seq_len: null\n",
        d="enforce-eager: false\ncompilation-config: {cudagraph_mode: FULL, custom_ops: [+a]}\n",
        e="model-path: Qwen/Qwen3-8B\ndisable-radix-cache: true\nchunked_prefill_size: 4096\n",
    )
    assert found.data["backend"]["flags"] == flags
    assert found.data["model"] == "qwen3-8b"
    assert left(found) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "o.yaml:1:5: not readable as YAML"),
        ("just words", "o.yaml:1:1: options stand as NAME: VALUE"),
        ("tensor-parallel-size: 0", "o.yaml:1:23: --tensor-parallel-size: must be at least 1"),
        ("tensor-parallel-size: [1, 2]", "'1 2' is no whole number"),
        ("max-num-seqs: {a: 1}", "is no whole number"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_at_its_place(text, said):
    with pytest.raises(PlannerError) as caught:
        imported("vllm serve Qwen/Qwen3-8B --config o.yaml", o=text)
    assert said in str(caught.value)


def test_a_file_that_is_not_there_is_listed():
    found = imported("vllm serve Qwen/Qwen3-8B --config none.yaml")
    rows = {row.word: row.becomes for row in found.rows if row.kind == "unmodelled"}
    assert rows == {"--config": "that file is not here, and its options are not read"}
