"""`planner import onnx` and `planner import torch`: from a file to a plan, and what is refused."""

import json
import sys

import onnx
import onnx_models
import pytest

DEPLOY = "model: ./small.yaml\ngpu: rtx-4090\nstep: {decode: {batch: 4, context: 64}}\n"


@pytest.fixture
def decoder(tmp_path, monkeypatch):
    """Three layers written out, in the working directory."""
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx_models.decoder(), str(tmp_path / "small.onnx"))
    return "small.onnx"


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_onnx_file_is_imported_and_planned(run, decoder, tmp_path, ranks):
    assert run("import", "onnx", decoder, "-o", "small.yaml").code == 0
    (tmp_path / "deploy.yaml").write_text(f"{DEPLOY}parallel: {{tensor: {ranks}}}\n")
    out = run("plan", "deploy.yaml", "--json", "--no-advice")
    assert out.code == 0, out.err
    plan = json.loads(out.out)
    # 100·32 twice, three layers of 4·32·32 + 3·32·48 + 2·32, a norm of 32
    assert plan["model"]["parameters"] == 2 * 3200 + 3 * (4096 + 4608 + 64) + 32


def test_what_was_read_is_told_where_the_spec_is_written(run, decoder):
    out = run("import", "onnx", decoder, "-o", "small.yaml").out
    assert "parameters          32.7 k" in out
    assert "rows                tokens of sequences" in out
    # K and V of 32 elements in 3 layers, 2 bytes each
    assert "kv bytes per token  384 in 16 bit" in out
    assert "8 stored numbers are no parameters of a node: tables, masks, scales" in out


def test_the_json_of_an_import_has_the_spec_and_its_sizes(run, decoder):
    document = json.loads(run("import", "onnx", decoder, "--json").out)
    assert (document["format"], document["kind"]) == (1, "import-onnx")
    assert document["parameters"] == 32736
    assert document["spec"]["sequence"][1] == {"block": "layer", "times": 3}


def test_a_graph_that_is_no_language_model_plans_by_its_own_axes(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx_models.mlp(), str(tmp_path / "mlp.onnx"))
    assert run("import", "onnx", "mlp.onnx", "-o", "small.yaml", "--axis", "batch=rows").code == 0
    deploy = "model: ./small.yaml\ngpu: rtx-4090\nstep: {shapes: {rows: 64}}\n"
    (tmp_path / "deploy.yaml").write_text(deploy)
    out = run("plan", "deploy.yaml", "--json", "--no-advice")
    assert (out.code, out.err) == (0, "")


def test_a_tower_plans_as_prompts_of_its_patches(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx_models.tower(), str(tmp_path / "tower.onnx"))
    assert run("import", "onnx", "tower.onnx", "-o", "small.yaml").code == 0
    deploy = "model: ./small.yaml\ngpu: rtx-4090\nstep: {prefill: {batch: 3, tokens: 16}}\n"
    (tmp_path / "deploy.yaml").write_text(deploy)
    assert run("plan", "deploy.yaml", "--no-advice").code == 0


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "is no ONNX model"),
        (b"\x00\x01 nothing of the kind", "is no ONNX model"),
        (b"kind: model\n", "is no ONNX model"),
    ],
)
def test_what_is_no_onnx_model_is_refused(run, tmp_path, monkeypatch, raw, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.onnx").write_bytes(raw)
    refused = run("import", "onnx", "bad.onnx")
    assert (refused.code, said in refused.err) == (2, True)
    assert "Traceback" not in refused.err


def test_a_file_that_is_not_there_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = run("import", "onnx", "none.onnx")
    assert (refused.code, "none.onnx cannot be read" in refused.err) == (2, True)


def test_operators_that_no_node_is_for_are_listed(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    b = onnx_models.Builder()
    b.add("NonZero", "x", out="y", name="which")
    model = b.model({"x": (onnx_models.FLOAT, ["n", 4])}, {"y": ["m", 4]})
    onnx.save(model, str(tmp_path / "odd.onnx"))
    refused = run("import", "onnx", "odd.onnx")
    assert (refused.code, "1 × NonZero: which" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("axis", "said"),
    [
        ("length", "as in --axis seq=tokens"),
        ("colour=3", "--axis colour: no axis is called so (its inputs have "),
        ("batch=0", "a size is from 1 to 999,999,999"),
        (f"batch={10**30}", "a size is from 1 to 999,999,999"),
        ("batch=-1", "'-1' is no name and no size"),
    ],
)
def test_an_axis_that_says_nothing_is_refused(run, decoder, axis, said):
    refused = run("import", "onnx", decoder, "--axis", axis)
    assert (refused.code, said in refused.err) == (2, True)


@pytest.mark.filterwarnings("ignore:The onnxtxt format")
@pytest.mark.parametrize("name", ["config.json", "config.textproto", "config.onnxtxt"])
def test_another_form_of_file_is_refused_by_its_name(run, tmp_path, monkeypatch, name):
    """The package reads JSON and text by the end of a name, each with errors of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text('{"architectures": ["LlamaForCausalLM"]}')
    refused = run("import", "onnx", name)
    assert (refused.code, "is no ONNX model" in refused.err) == (2, True)


@pytest.mark.parametrize(("package", "extra"), [("onnx", "onnx"), ("torch.export", "lab")])
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    run, decoder, monkeypatch, package, extra
):
    monkeypatch.setitem(sys.modules, package, None)
    refused = run("import", package.split(".")[0], decoder)
    assert (refused.code, f"inference-planner[{extra}]" in refused.err) == (2, True)
