"""`planner import hf` and `planner import engine`, from the file to the plan."""

import json

import pytest

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_attention_heads": 14,
    "num_hidden_layers": 24,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
}
DEPLOYMENT = "model: ./config.json\ngpu: rtx-4090\nstep: {decode: {batch: 4, context: 1024}}\n"
LINE = "vllm serve Qwen/Qwen2.5-0.5B-Instruct --max-num-seqs 64 --port 80 --colour blue"


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A config.json in the working directory; answers with a way to write it again."""
    monkeypatch.chdir(tmp_path)

    def write(**changes: object) -> None:
        (tmp_path / "config.json").write_text(json.dumps({**CONFIG, **changes}, indent=2))

    write()
    return write


def test_a_config_is_printed_as_a_spec_that_plans_as_the_catalogues_model(run, config, tmp_path):
    (tmp_path / "model.yaml").write_text(run("import", "hf", "config.json").out)
    deploy = "model: {}\ngpu: rtx-4090\nstep: {{decode: {{batch: 4, context: 1024}}}}\n"
    times = set()
    for name in ("./model.yaml", "./config.json", "qwen2.5-0.5b-instruct"):
        (tmp_path / "deploy.yaml").write_text(deploy.format(name))
        plan = json.loads(run("plan", "deploy.yaml", "--json", "--no-advice").out)
        times.add((plan["step"]["time_s"], plan["memory"]["weights_bytes"]))
    assert len(times) == 1


def test_what_was_read_is_told_where_the_spec_is_written(run, config):
    config(favourite_colour="blue")
    out = run("import", "hf", "config.json", "-o", "model.yaml", "--name", "My Model").out
    assert "architecture        Qwen2ForCausalLM" in out
    # 151936·896 + 24·(896·(896 + 2·128) + 1152 + 896·896 + 3·896·4864 + 2·896) + 896
    assert "parameters          494 M" in out
    # K and V of 2 heads of 64 in 24 layers, 2 bytes each
    assert f"kv bytes per token  {2 * 2 * 64 * 24 * 2:,} in 16 bit" in out
    assert "- not read: favourite_colour" in out
    again = run("import", "hf", "config.json", "-o", "model.yaml")
    assert (again.code, "--force writes over it" in again.err) == (2, True)
    assert run("import", "hf", "config.json", "-o", "model.yaml", "--force").code == 0


def test_the_json_of_an_import_has_the_spec_and_its_sizes(run, config):
    config(quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128})
    document = json.loads(run("import", "hf", "config.json", "--json").out)
    assert (document["format"], document["kind"]) == (1, "import-hf")
    assert document["spec"]["quantization"] == {"weights": "awq"}
    assert document["architecture"] == "Qwen2ForCausalLM"
    assert document["kv_bytes_per_token"] == 2 * 2 * 64 * 24 * 2
    assert document["notes"] == []


def test_a_deployments_config_is_told_at_its_own_place(run, config, tmp_path):
    config(hidden_size="wide")
    (tmp_path / "deploy.yaml").write_text(DEPLOYMENT)
    found = run("plan", "deploy.yaml")
    assert found.code == 2
    assert "config.json:5:18: hidden_size: expected a whole number, got 'wide'" in found.err


def test_a_config_whose_sizes_do_not_fit_the_ranks_is_told_at_its_own_place(run, config, tmp_path):
    (tmp_path / "deploy.yaml").write_text(DEPLOYMENT)
    found = run("plan", "deploy.yaml", "--set", "parallel.tensor=3")
    assert found.code == 2
    assert "Traceback" not in found.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "there is no Hugging Face config"),
        ('{"kind": "model"}', "is no Hugging Face config"),
        ("[1]", "a spec is a mapping"),
        ('{"architectures": ["NoSuchForCausalLM"]}', "the nearest supported is"),
        ('{"model_type": "bert"}', "architecture 'bert' is not supported"),
        ('{"architectures": ["LlamaForCausalLM"', "config.json:1:"),
    ],
)
def test_what_is_no_config_is_refused(run, config, tmp_path, text, said):
    (tmp_path / "config.json").write_text(text)
    found = run("import", "hf", "config.json")
    assert found.code == 2
    assert said.split(" is ")[-1].removeprefix("there ") in found.err


def test_a_command_line_becomes_a_deployment_that_plans_once_its_gaps_are_filled(
    run, config, tmp_path
):
    out = run("import", "engine", LINE, "-o", "deploy.yaml").out
    port = next(line.split() for line in out.splitlines() if "--port" in line)
    assert port[:3] == [f"command:1:{LINE.index('--port') + 1}", "--port", "80"]
    assert "--colour" in out
    refused = run("plan", "deploy.yaml")
    assert refused.code == 2
    assert "gpu: is still to be filled in" in refused.err
    assert "missing a step or a workload" in refused.err
    filled = ("--set", "gpu=rtx-4090", "--set", "step.decode.batch=4", "--set")
    assert run("plan", "deploy.yaml", *filled, "step.decode.context=1024").code == 0


def test_what_a_line_cannot_say_may_be_given_beside_it(run, config, tmp_path):
    step = "{decode: {batch: 4, context: 1024}}"
    text = run("import", "engine", LINE, "--gpu", "rtx-4090", "--step", step).out
    assert f"# command:1:{LINE.index('--colour') + 1}: --colour blue: unknown" in text
    (tmp_path / "deploy.yaml").write_text(text)
    plan = json.loads(run("plan", "deploy.yaml", "--json", "--no-advice").out)
    assert plan["deployment"]["backend"]["flags"] == {"max_num_seqs": 64}


def test_the_json_of_a_command_line_has_every_word(run, config):
    document = json.loads(run("import", "engine", LINE, "--json").out)
    assert document["kind"] == "import-engine"
    assert [(word["word"], word["kind"]) for word in document["words"]] == [
        ("model", "set"),
        ("--max-num-seqs", "set"),
        ("--port", "silent"),
        ("--colour", "unknown"),
    ]


def test_of_several_commands_one_is_chosen_and_the_others_are_told(run, config, tmp_path):
    (tmp_path / "two.sh").write_text(f"{LINE}\nvllm serve Qwen/Qwen3-8B -tp $N\n")
    first = run("import", "engine", "two.sh")
    assert "# another command stands at two.sh:2:1: --which 2" in first.out
    second = run("import", "engine", "two.sh", "--which", "2", "--env", "N=2")
    assert "model: qwen3-8b" in second.out
    assert "parallel: {tensor: 2}" in second.out
    unset = run("import", "engine", "two.sh", "--which", "2")
    assert (unset.code, "N is not set in this text (--env N=VALUE)" in unset.err) == (2, True)
    assert run("import", "engine", "two.sh", "--which", "3").code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["echo hello world"], "command starts no engine"),
        (["missing.sh"], "there is no file missing.sh"),
        ([""], "there is no command line in this"),
        ([LINE, "--gpu", "h1000"], "unknown gpu 'h1000'"),
        ([LINE, "--step", "{decode"], "--step step={decode"),
        ([LINE, "--env", "X"], "is no NAME=VALUE"),
        (["vllm bench serve --model x"], "is a client"),
        ([LINE, "-o", "."], "is a folder"),
    ],
)
def test_what_starts_no_engine_is_refused(run, config, words, said):
    found = run("import", "engine", *words)
    assert found.code == 2
    assert said in found.err


def test_a_file_of_options_is_found_beside_the_script(run, config, tmp_path):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "serve.sh").write_text("vllm serve --config options.yaml\n")
    (tmp_path / "jobs" / "options.yaml").write_text("model: Qwen/Qwen3-8B\nmax-num-seqs: many\n")
    found = run("import", "engine", "jobs/serve.sh")
    assert found.code == 2
    assert "jobs/options.yaml:2:15: --max-num-seqs: 'many' is no whole number" in found.err
    (tmp_path / "jobs" / "options.yaml").write_text("model: Qwen/Qwen3-8B\nmax-num-seqs: 64\n")
    assert "flags: {max_num_seqs: 64}" in run("import", "engine", "jobs/serve.sh").out
    elsewhere = run("import", "engine", "vllm serve Qwen/Qwen3-8B --config options.yaml")
    assert "that file is not here, and its options are not read" in elsewhere.out


def test_sizes_that_do_not_suit_a_block_are_told_at_the_users_file(run, config, tmp_path):
    """What is wrong are the model's sizes, so the place is the model's, and the block's beside."""
    (tmp_path / "mine.yaml").write_text(
        "kind: model\nname: mine\ntitle: Mine\nsource: me\n"
        "dims: {hidden: 64, heads: 4, kv_heads: 4, head_dim: 16, intermediate: 128, vocab: 1000,"
        " experts: 4, top_k: 5, moe_intermediate: 32}\nweights: bf16\n"
        "sequence: [{block: embedding}, {block: decoder-moe, times: 2}, {block: lm-head}]\n"
    )
    (tmp_path / "deploy.yaml").write_text(
        "{model: ./mine.yaml, gpu: h100-sxm, backend: {name: vllm},"
        " step: {decode: {batch: 1, context: 10}}}\n"
    )
    found = run("plan", "deploy.yaml")
    assert found.code == 2
    assert "mine.yaml:1:1: Mine does not build: node 'router': cannot choose 5 of 4" in found.err
    assert "(at " in found.err
    assert "decoder-moe.yaml:" in found.err
