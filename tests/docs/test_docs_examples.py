"""Examples of the documentation: commands run, specs load and plan, hand-made sums come out."""

import json
import re
from pathlib import Path
from statistics import median

import pytest
from docs_pages import ROOT, blocks, commands, generator, text

import planner
from planner.graph.build import model_graph
from planner.ops.types import Formats
from planner.spec.catalog import FOLDERS, Catalog
from planner.spec.conditions import holds
from planner.spec.load import load_deployment, load_text
from planner.spec.question import ask, blocks_of
from planner.spec.source import compose
from planner.spec.types import KINDS

OUTPUTS = generator().outputs
YAML = blocks("docs/specs.md", "yaml")
FRAGMENTS = [block for block in YAML if block.startswith("# a fragment")]
WHOLE = [block for block in YAML if block not in FRAGMENTS]
CI = ROOT / "docs/examples/ci"
SPEC = "specs/qwen2.5-7b-rtx4090.yaml"


def data(block):
    """A block of YAML as plain data, by the rules of specs."""
    return compose(block, "docs/specs.md")[0]


def example(kind, name=None):
    """The page's example of a kind: the first, or the one of a name."""
    found = [data(block) for block in WHOLE]
    return next(
        d for d in found if d.get("kind", "deployment") == kind and name in (None, d["name"])
    )


def loaded(kind, values):
    """A spec of plain data; JSON is YAML."""
    return load_text(json.dumps(values), "example", kind)


@pytest.fixture
def catalog(tmp_path):
    """The shipped catalogue behind the examples of the page."""
    for block in WHOLE:
        spec = load_text(block, "docs/specs.md")
        if spec.kind != "deployment":
            file = tmp_path / FOLDERS[spec.kind] / f"{spec.name}.yaml"
            file.parent.mkdir(exist_ok=True)
            file.write_text(block, encoding="utf-8")
    return Catalog.standard([tmp_path])


@pytest.mark.parametrize("command", [c for c in commands("README.md") if c.startswith("planner ")])
def test_commands_of_the_readme_run(command):
    """Each is answered with yes or no; another exit code raises."""
    assert OUTPUTS.run(command, ROOT)


def test_the_library_example_of_the_readme_runs(monkeypatch, capsys):
    """It prints the plan's kernels and the roofline of the article."""
    monkeypatch.chdir(ROOT)
    (block,) = blocks("README.md", "python")
    exec(compile(block, "README.md", "exec"), {})
    # 8e9 bytes / 864e9 bytes/s = 9.26 ms, more than 2e12 FLOP / 362e12 FLOP/s = 5.52 ms
    assert capsys.readouterr().out.splitlines()[-1] == f"{8e9 / 864e9} memory"


def test_the_spec_in_the_readme_is_the_shipped_one():
    """Without comments and layout they are equal."""
    (block,) = blocks("README.md", "yaml")
    assert data(block) == data(text(SPEC))


def test_there_is_an_example_of_every_kind():
    """Each kind of spec is shown whole."""
    assert {data(block).get("kind", "deployment") for block in WHOLE} == set(KINDS)


def example_in_ci():
    """The page's session as it runs now: what each command prints, by the command."""
    bodies = re.findall(
        r"<!-- session: (\S+) -->\n(.*?)<!-- end -->", text("docs/baselines.md"), re.DOTALL
    )
    assert {folder for folder, _ in bodies} == {"docs/examples/ci"}
    replayed = generator().sessions.replayed(tuple(body for _, body in bodies), CI)
    whole = "\n".join(replayed).replace("```console\n", "").replace("```\n", "")
    parts = re.split(r"^\$ (.+)$", whole, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def median_of(name):
    """The median of a benchmark file of the example."""
    return median(json.loads((CI / name).read_text(encoding="utf-8"))["latencies"])


def test_the_check_in_ci_passes_and_fails_as_the_page_shows():
    """The same again is no change, 8 % more is a regress, and once accepted it is none."""
    ran = [(c, out) for c, out in example_in_ci() if c.startswith("sh check.sh")]
    (_, same), (_, slower), (_, accepted) = ran
    for name, out, verdict, code in (
        ("same.json", same, "pass", 0),
        ("slower.json", slower, "regress", 1),
    ):
        ratio = median_of(name) / median_of("release.json")
        assert f"against baseline release: {verdict}\n" in out
        assert f"median latency {ratio:.2f} × the baseline's" in out
        assert out.rstrip().endswith(f"exit code {code}")
    assert accepted.rstrip().endswith("against baseline release: pass")


def test_the_history_in_the_page_has_the_three_runs_and_the_prune_the_one_nobody_accepted():
    """Two were accepted, one after the other; ids are those that recording printed."""
    printed = dict(example_in_ci())
    ids = re.findall(r"run (\w{12}) against baseline", "".join(printed.values()))
    history = printed["planner history --baseline release"]
    assert [run in history for run in ids] == [True] * 3
    (gone,) = re.findall(
        r"^run +(\w{12})", printed["planner db prune --older-than 0h"], re.MULTILINE
    )
    assert gone == ids[0]


def test_the_lines_of_the_check_and_the_job_are_those_of_the_example():
    """The shell block is in check.sh; the job measures the deployment and runs the check."""
    (lines,) = [block for block in blocks("docs/baselines.md", "sh") if "id_of" in block]
    assert lines in (CI / "check.sh").read_text(encoding="utf-8")
    (job,) = data(blocks("docs/baselines.md", "yaml")[-1])["jobs"].values()
    steps = [step["run"] for step in job["steps"] if "run" in step]
    load = data((CI / "chat.yaml").read_text(encoding="utf-8"))["workload"]
    measured = next(step for step in steps if step.startswith("vllm"))
    for option, key in (("batch-size", "batch"), ("input-len", "input"), ("output-len", "output")):
        assert f"--{option} {load[key]} " in measured
    samples = json.loads((CI / "release.json").read_text(encoding="utf-8"))["latencies"]
    assert f"--num-iters {len(samples)} " in measured
    assert any(step.startswith("sh docs/examples/ci/check.sh ") for step in steps)
    drawn = next(step for step in steps if step.startswith("planner history"))
    history = generator().commands.all_commands()["history"]
    assert history.make_context("history", drawn.split()[2:]).params["chart"] == Path(
        "history.html"
    )


@pytest.mark.parametrize("block", WHOLE)
def test_examples_of_specs_load(block):
    """A whole spec is checked as a user's file is."""
    assert load_text(block, "docs/specs.md")


@pytest.mark.parametrize("block", FRAGMENTS)
def test_fragments_fit_where_they_belong(block, catalog):
    """Steps and workloads into the deployment, a sequence into a model, conditions anywhere."""
    values = data(block)
    if values.keys() <= {"step", "workload"}:
        rest = {k: v for k, v in example("deployment").items() if k != "step"}
        assert loaded("deployment", {**rest, **values})
    elif "sequence" in values:
        dims = {**example("model", "tiny")["dims"], "intermediate": 4096}
        model = loaded("model", {**example("model", "tiny"), "dims": dims, **values})
        bf16 = Formats("bf16", "bf16", "bf16", "bf16")
        # 6 turns of 5 local layers and a global one
        assert sum(model_graph(model, blocks_of(model, catalog), bf16).times) == 6 * 6 + 2
    elif "quantization" in values:
        assert loaded("model", {**example("model", "tiny"), **values})
    else:
        facts = {"flag.enforce_eager": False, "capability": 9.0, "tensor": 2, "version": "0.16"}
        assert holds(
            {k: v if not isinstance(v, list) else tuple(v) for k, v in values["when"].items()},
            facts,
        )


def test_the_examples_plan_together(catalog):
    """The page's model on its GPU and engine: its three rules all run, one across layers."""
    deployment = loaded(
        "deployment",
        {
            "model": "tiny",
            "gpu": "round-gpu",
            "backend": {"name": "tiny-engine"},
            "step": {"decode": {"batch": 3, "context": 512}},
        },
    )
    plan = planner.plan_question(ask(deployment, catalog))
    assert {k.rule for k in plan.kernels} >= {"flash-attention", "qkv-merge", "add-norm"}
    assert any(k.straddles for k in plan.kernels if k.rule == "add-norm")
    # sizes 1, 2, 4, 8, 16 … 64: three sequences are padded to 4
    assert plan.step.modes["full"].captured_size == 4
    # 100 TFLOP/s / 1 TB/s
    assert {n.ridge_flops_per_byte for n in plan.nodes if n.dtype == "bf16"} == {100.0}


def test_the_graph_that_is_no_language_model_plans(catalog):
    """Its free dim is bound by the step."""
    values = {"model": "two-layers", "gpu": "round-gpu", "backend": {"name": "pytorch-eager"}}
    deployment = loaded("deployment", {**values, "step": {"shapes": {"batch": 64}}})
    plan = planner.plan_question(ask(deployment, catalog))
    # 784·512 + 512 + 512·10 + 10
    assert plan.model.parameters == 784 * 512 + 512 + 512 * 10 + 10


def node(plan, name):
    """A node's row."""
    return next(row for row in plan.nodes if row.id == name)


def bare_roofline():
    """The plan of the README's deployment that can be checked by hand."""
    return planner.plan_question(ask(load_deployment(ROOT / SPEC), Catalog.standard(), "roofline"))


def test_sums_of_the_readme_are_those_of_the_plan():
    """Memory, intensity and step time, recomputed from the model's dims and the datasheet."""
    plan, page = bare_roofline(), text("README.md")
    assert plan.memory.weights_bytes == 7_615_616_512 * 2 == plan.model.parameters * 2
    assert plan.memory.kv_bytes_per_token == 2 * 4 * 128 * 2 * 28 == 57_344
    assert plan.memory.kv_bytes == 16 * 4096 * 57_344
    assert plan.memory.budget_bytes == pytest.approx(0.9 * 23.52 * 2**30)
    gate = node(plan, "gate_proj")
    assert gate.matmul_flops == 2 * 16 * 3584 * 18944
    assert gate.hbm_bytes == 2 * (3584 * 18944 + 16 * 3584 + 16 * 18944)
    assert f"{gate.flops_per_byte:.1f}" == "15.9"
    assert gate.ridge_flops_per_byte == pytest.approx(165.2e12 / 1008e9)
    # the seconds of all bytes, graph nodes, launched kernels and one replay
    fixed = 282 * 1e-6 + 5 * 1.65e-6 + 10e-6
    assert plan.step.time_s == pytest.approx(plan.totals.hbm_bytes / 1008e9 + fixed, rel=1e-6)
    read = 2 * (7_615_616_512 - 152_064 * 3584) + plan.memory.kv_bytes
    assert f"{read / 1e9:.2f}" == "17.90"
    assert f"{(plan.totals.hbm_bytes - read) / 1008e9 * 1e3:.2f}" == "0.17"
    for figure in ("17.90 GB / 1008 GB/s = 17.8 ms", "15.9 FLOP/byte", "57,344", "7,615,616,512"):
        assert figure in page


def test_sums_of_the_model_page_are_those_of_the_plan():
    """Crossing batches, and what one rule saves in two places."""
    plan, page = planner.plan_file(ROOT / SPEC), text("docs/model.md")
    # r·w / (f − r·a) with f = w = 2·3584·18944 and a = 2·(3584 + 18944)
    f, a, r = 2 * 3584 * 18944, 2 * (3584 + 18944), 165.2 / 1.008
    assert node(plan, "gate_proj").crossing_tokens == pytest.approx(r * f / (f - r * a))
    assert f"M* = {r * f / (f - r * a):.1f} tokens" in page
    assert f"`k_proj` at {node(plan, 'k_proj').crossing_tokens:.1f}" in page
    saved = {k.nodes[-1]: k.saved_bytes for k in plan.kernels if k.straddles}
    assert saved == {"input_norm": 16 * 3584 * 2, "final_norm": 2 * 16 * 3584 * 2}
    assert "114,688" in page
    assert "229,376" in page
