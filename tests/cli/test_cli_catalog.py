"""`planner catalog`, `schema` and `intensity`."""

import json

import jsonschema
import pytest

from planner.ops import OPERATORS
from planner.resources import folder
from planner.spec.types import KINDS

FOLDERS = ("gpus", "models", "blocks", "backends", "calibrations", "prices", "spreads")
GPU = """\
kind: gpu
name: mine
title: Mine
vendor: other
architecture: none
memory: {type: DDR, capacity: {value: 64 GiB, source: sheet}, bandwidth: {value: 10 GB/s, source: x}}
matrix: {bf16: {value: 1 TFLOP/s, source: sheet}}
vector: {value: 1 TFLOP/s, source: sheet}
sources: {sheet: "recalled: a data sheet"}
"""
MODEL = """\
kind: model
name: mine
title: Mine
dims: {hidden: 64, heads: 4, kv_heads: 4, head_dim: 16, intermediate: 128, vocab: 1000}
published: {parameters: %d, source: by hand}
sequence: [{block: embedding}, {block: decoder-swiglu, times: 2}, {block: lm-head}]
"""
# embedding and head 2·1000·64; a layer 4·64·64 + 3·64·128 + 2·64; the last norm 64
PARAMETERS = 2 * 64_000 + 2 * (16_384 + 24_576 + 128) + 64


@pytest.fixture
def mine(tmp_path):
    """Writes a file into a catalogue of one's own, and answers with the words that name it."""

    def write(kind: str, text: str, name: str = "mine") -> tuple[str, str]:
        (tmp_path / "own" / kind).mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / kind / f"{name}.yaml").write_text(text)
        return "--catalog", str(tmp_path / "own")

    return write


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_kinds_list_has_every_file_of_its_folder(run, kind):
    document = json.loads(run("catalog", "list", kind, "--json").out)
    files = sorted(path.stem for path in (folder("catalog") / kind).glob("*.yaml"))
    assert [entry["name"] for entry in document["entries"]] == files
    shown = run("catalog", "list", kind).out
    assert all(name in shown for name in files)


def test_operators_are_listed_with_their_attributes_and_a_line_about_each(run):
    document = json.loads(run("catalog", "list", "ops", "--json").out)
    assert [entry["name"] for entry in document["entries"]] == sorted(OPERATORS.names())
    assert all(entry["about"] for entry in document["entries"])
    linear = next(entry for entry in document["entries"] if entry["name"] == "linear")
    assert "features" in linear["attributes"]


def test_without_a_kind_the_kinds_are_listed(run):
    document = json.loads(run("catalog", "list", "--json").out)
    assert [entry["kind"] for entry in document["entries"]] == [*FOLDERS, "ops"]


def test_a_kind_may_be_singular(run):
    assert run("catalog", "list", "gpu").out == run("catalog", "list", "gpus").out


def test_an_unknown_kind_ends_with_2(run):
    outcome = run("catalog", "list", "gpsu")
    assert outcome.code == 2
    assert outcome.err == "the catalogue has no kind 'gpsu' (did you mean 'gpus'?)\n"


def test_an_entry_is_shown_with_its_file_and_its_sources(run):
    shown = run("catalog", "show", "gpu", "rtx-4090").out
    text = (folder("catalog") / "gpus" / "rtx-4090.yaml").read_text("utf-8")
    assert shown.startswith("NVIDIA GeForce RTX 4090\n")
    # 165.2 TFLOP/s over 1.008 TB/s
    assert "ridge bf16    164 FLOP/byte" in shown
    assert "sources:" in text
    assert "sources:" in shown


@pytest.mark.parametrize("kind", FOLDERS)
def test_every_entry_can_be_shown(run, kind):
    for entry in json.loads(run("catalog", "list", kind, "--json").out)["entries"]:
        outcome = run("catalog", "show", kind, entry["name"], "--json")
        assert outcome.code == 0
        assert json.loads(outcome.out)["entry"]["name"] == entry["name"]


def test_an_operator_is_shown_with_its_formula(run):
    shown = run("catalog", "show", "ops", "linear").out
    assert "FLOPs = 2·M·K·N" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gpus", "rtx4090"), "unknown gpu 'rtx4090' (did you mean 'rtx-4090'?)"),
        (("ops", "lineer"), "unknown operator 'lineer' (did you mean 'linear'?)"),
    ],
)
def test_an_unknown_entry_ends_with_2(run, words, message):
    outcome = run("catalog", "show", *words)
    assert (outcome.code, outcome.err) == (2, message + "\n")


def test_the_catalogue_that_ships_is_sound(run):
    outcome = run("catalog", "check", "--json")
    document = json.loads(outcome.out)
    assert (outcome.code, document["faults"]) == (0, [])
    assert document["worst"][1] < 0.001
    assert document["counts"]["gpus"] == len(list((folder("catalog") / "gpus").glob("*.yaml")))


def test_a_file_that_does_not_load_is_found(run, mine):
    outcome = run("catalog", "check", *mine("gpus", "kind: gpu\nname: mine\n"))
    assert outcome.code == 1
    assert "mine.yaml:1:1: missing field" in " ".join(outcome.out.split())


def test_a_figure_without_a_known_source_is_found(run, mine):
    outcome = run("catalog", "check", *mine("gpus", GPU))
    assert outcome.code == 1
    assert "mine: memory.bandwidth has no source of the file's `sources`" in outcome.out
    assert "memory.capacity" not in outcome.out


def test_a_model_of_the_published_size_is_sound(run, mine):
    assert run("catalog", "check", *mine("models", MODEL % PARAMETERS)).code == 0


def test_a_model_of_another_size_is_found(run, mine):
    outcome = run("catalog", "check", *mine("models", MODEL % (2 * PARAMETERS)))
    assert outcome.code == 1
    assert "mine: parameters are 50.000 % from the published total" in outcome.out


def test_a_model_that_does_not_build_is_found(run, mine):
    outcome = run("catalog", "check", *mine("models", MODEL.replace("head_dim: 16, ", "") % 1))
    assert outcome.code == 1
    assert "head_dim" in outcome.out


def test_a_block_that_nothing_can_build_is_found(run, mine):
    block = (
        "{kind: block, name: mine, inputs: {x: [tokens, hidden]},"
        " nodes: {n: {op: linear, in: x, features: wings * 2}}, outputs: [n]}"
    )
    outcome = run("catalog", "check", *mine("blocks", block))
    assert outcome.code == 1
    assert "mine: no model uses this block" in outcome.out


def test_a_block_that_no_model_uses_but_any_can_build_is_sound(run, mine):
    block = (
        "{kind: block, name: mine, inputs: {x: [tokens, hidden]},"
        " nodes: {n: {op: linear, in: x, features: hidden}}, outputs: [n]}"
    )
    assert run("catalog", "check", *mine("blocks", block)).code == 0


def test_a_version_condition_that_is_a_number_is_found(run, mine):
    text = (folder("catalog") / "backends" / "vllm.yaml").read_text("utf-8")
    outcome = run("catalog", "check", *mine("backends", text.replace('"< 0.20"', "0.10"), "vllm"))
    assert outcome.code == 1
    assert "when.version must be text in quotes, got 0.1" in outcome.out


def test_a_duration_of_an_engine_with_an_unknown_source_is_found(run, mine):
    text = (folder("catalog") / "backends" / "vllm.yaml").read_text("utf-8")
    assert "gpu-benches l40.txt" in text
    changed = text.replace("gpu-benches l40.txt", "a friend told me")
    outcome = run("catalog", "check", *mine("backends", changed, "vllm"))
    assert outcome.code == 1
    assert "names a source that `sources` lacks: a friend told me" in " ".join(outcome.out.split())


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_a_schema(run, kind):
    document = json.loads(run("schema", kind).out)
    jsonschema.Draft202012Validator.check_schema(document)
    assert document["title"] == f"planner {kind}"


def test_an_unknown_schema_ends_with_2(run):
    outcome = run("schema", "gpus")
    assert (outcome.code, outcome.err) == (
        2,
        "there is no kind of spec named 'gpus' (did you mean 'gpu'?)\n",
    )


def test_intensity_in_json_has_the_lessons_figures(run):
    words = ("qwen2.5-7b-instruct", "--gpu", "rtx-4090", "--convention", "textbook", "--json")
    document = json.loads(run("intensity", *words).out)
    assert document["kind"] == "intensity"
    found = {(row["name"], row["tokens"]): row["flops_per_byte"] for row in document["gemms"]}
    # 2·256·3584·512 / ((256·3584 + 3584·512 + 256·512)·2) = 162.9
    assert found["k_proj", 256] == pytest.approx(162.9, abs=0.05)
    assert document["attention"][0]["decode_flops_per_byte"] == pytest.approx(7)


def test_intensity_takes_other_loads(run):
    words = ("qwen2.5-7b-instruct", "--gpu", "l40s", "--tokens", "7, 9,7", "--context", "33")
    document = json.loads(run("intensity", *words, "--json").out)
    assert list(dict.fromkeys(row["tokens"] for row in document["gemms"])) == [7, 9]
    assert [row["context"] for row in document["attention"]] == [33]


@pytest.mark.parametrize("text", ["0", "a", "1,,2", "", "-3", "1e3", "9" * 5000])
def test_a_load_that_is_no_number_ends_with_2(run, text):
    outcome = run("intensity", "qwen2.5-7b-instruct", "--gpu", "l40s", "--tokens", text)
    assert outcome.code == 2
    assert "is no whole number above zero" in outcome.err


def test_intensity_on_several_gpus_is_where_they_cross(run):
    words = ("qwen2.5-7b-instruct", "--gpu", "rtx-4090, h100-sxm")
    shown = run("intensity", *words).out
    # 165.2 TFLOP/s over 1008 GB/s, 989.4 over 3350
    assert "ridge in FLOP/byte: rtx-4090 163.9, h100-sxm 295.3" in shown
    assert "Attention of decode stays below 7.0 FLOP/byte" in shown  # 28 query heads on 4
    found = json.loads(run("intensity", *words, "--json").out)["gpus"]
    assert list(found) == ["rtx-4090", "h100-sxm"]
    alone = json.loads(run("intensity", words[0], "--gpu", "h100-sxm", "--json").out)
    assert found["h100-sxm"]["gemms"] == alone["gemms"]


def test_a_precision_that_a_gpu_does_not_multiply_is_refused(run):
    words = ("qwen2.5-7b-instruct", "--gpu", "h100-sxm,rtx-3090", "--precision", "fp8")
    outcome = run("intensity", *words)
    assert outcome.code == 2
    assert "rtx-3090 multiplies no fp8" in outcome.err
    assert "one of tf32, bf16, fp16, int8" in outcome.err
