"""From text to frozen specs: kinds, strict types, origins."""

import pytest
from pydantic import ValidationError
from spec_samples import DEPLOYMENT, GPU, MODEL

from planner.errors import SpecError, UsageError
from planner.spec.deployment import check, members
from planner.spec.load import build, load_deployment, load_file, load_text
from planner.spec.source import compose
from planner.spec.types import BlockCycle, Decode, DeploymentSpec, GpuSpec, ModelSpec


def refused(text, kind=None):
    with pytest.raises(SpecError) as caught:
        load_text(text, "f.yaml", kind)
    return str(caught.value)


def test_a_deployment_needs_no_kind():
    spec = load_text(DEPLOYMENT, "f.yaml")
    assert isinstance(spec, DeploymentSpec)
    assert (spec.step.decode.batch, spec.step.decode.context) == (16, 4096)
    assert spec.backend.flags == {"enforce_eager": False, "max_num_seqs": 64}
    assert spec.host.launch == pytest.approx(4.5e-6)
    assert spec.price == pytest.approx(0.69)


def test_the_kind_of_a_text_decides_without_another():
    assert isinstance(load_text(GPU, "f.yaml"), GpuSpec)
    assert isinstance(load_text(MODEL, "f.yaml"), ModelSpec)


def test_quantities_come_out_in_si_with_their_source():
    spec = load_text(GPU, "f.yaml", "gpu")
    assert spec.memory.capacity.value == 24e9
    assert spec.memory.visible.value == 24 * 2**30
    assert spec.memory.bandwidth.source == "sheet"
    assert spec.multiprocessors.value == 128
    assert spec.matrix["bf16"].value == 160e12


def test_a_text_of_another_kind_says_so():
    assert "f.yaml:1:7: kind: this is a spec of kind gpu, expected model" in refused(GPU, "model")


def test_a_kind_may_be_left_out_where_it_is_known():
    text = GPU.removeprefix("kind: gpu\n")
    assert load_text(text, "f.yaml", "gpu").name == "round-gpu"
    assert "missing field 'kind'" in refused(text)


def test_the_design_page_prints_this_error():
    said = refused("model: m\ncontxt: 4096\ngpu: g\nstep: {decode: {batch: 1, context: 8}}\n")
    head, excerpt, caret = said.split("\n")
    assert head.startswith("f.yaml:2:1: contxt: unknown field")
    assert (excerpt, caret) == ("   2 | contxt: 4096", "     | ^")


def test_all_faults_come_at_once_in_the_order_of_the_file():
    text = DEPLOYMENT.replace("tensor", "tensr").replace("fp8", "fp9").replace("0.9}", "2}")
    text = text.replace("4096", "-1").replace("USD/h", "")
    assert [int(line.split(":")[1]) for line in refused(text).split("\n")[::3]] == [
        4,
        7,
        12,
        16,
        18,
    ]


def test_yaml_faults_and_faults_of_fields_come_together():
    said = refused(DEPLOYMENT.replace("4096", "no") + "gpu: other\n")
    assert "16:14: step.decode.context: expected a whole number" in said
    assert "19:1: duplicate key 'gpu'" in said


def test_a_value_that_yaml_refuses_gets_one_fault():
    assert refused(DEPLOYMENT.replace("batch: 16", "batch: .nan")).count("f.yaml:") == 1


def test_nothing_is_called_missing_where_a_merge_key_may_bring_it():
    text = DEPLOYMENT.replace("    batch: 16\n", "    <<: {batch: 16}\n")
    assert "missing" not in refused(text)


def test_a_misspelt_key_is_not_also_called_missing():
    assert "missing" not in refused(DEPLOYMENT.replace("context", "contxt"))


def test_every_spec_inside_remembers_its_place():
    spec = load_text(MODEL, "f.yaml")
    cycle = spec.sequence[1]
    assert isinstance(cycle, BlockCycle)
    assert cycle.blocks[0].origin.path == ("sequence", 1, "blocks", 0)
    where = cycle.blocks[0].origin.at("with", "window").fault("m").where
    assert (where.line, where.column) == (15, 24)
    node = spec.blocks["local"].nodes["proj"]
    assert node.origin.at("features").fault("m").where.line == 22
    assert node.origin.at("in").fault("m", key=True).where.column == 26


def test_a_default_is_shown_at_the_nearest_place_that_is_written():
    one, two = load_text(DEPLOYMENT, "one"), load_text(DEPLOYMENT.replace("host", "# host"), "two")
    assert two.host.origin.fault("m").where.file == "two"
    assert one.host.origin.fault("m").where.line == 17


def test_defaults_of_two_deployments_keep_their_own_origins():
    text = "model: m\ngpu: g\nstep: {decode: {batch: 1, context: 8}}\n"
    one, two = load_text(text, "one"), load_text(text, "two")
    assert one.parallel.origin.document.file == "one"
    assert two.parallel.origin.document.file == "two"


def test_a_spec_cannot_be_changed():
    with pytest.raises(ValidationError):
        load_text(DEPLOYMENT, "f.yaml").name = "other"


def test_a_part_of_a_document_is_built_with_its_places():
    data, document = compose("a:\n  b: {batch: 1, context: x}\n", "f")
    with pytest.raises(SpecError, match=r"f:2:26: a\.b\.context: expected a whole number"):
        build(Decode, data["a"]["b"], document, ("a", "b"))
    data["a"]["b"]["context"] = 4
    assert build(Decode, data["a"]["b"], document, ("a", "b")).origin.path == ("a", "b")


def test_a_hundred_faults_are_enough():
    items = "\n".join(f"    x{n}: 1" for n in range(5000))
    text = f"model: m\ngpu: g\nstep:\n  decode:\n    batch: 1\n    context: 1\n{items}\n"
    with pytest.raises(SpecError) as caught:
        load_text(text, "f")
    assert len(caught.value.faults) == 100


@pytest.mark.parametrize(
    "member",
    [
        "decode: {batch: 1, context: 2}",
        "prefill: {tokens: 4}",
        "mixed: [{count: 1, new_tokens: 2, kv_tokens: 2}]",
        "shapes: {batch: 32}",
    ],
)
def test_a_step_of_one_member_is_fine(member):
    spec = load_text(f"model: m\ngpu: g\nstep: {{{member}}}\n", "f")
    assert check(spec) == []
    assert members(spec.step) == [member.split(":")[0]]


def test_a_static_batch_is_fine():
    text = "model: m\ngpu: g\nworkload: {batch: 16, input: 1024, output: 128}\n"
    assert load_text(text, "f").workload.batch == 16


def test_every_unbuilt_field_is_refused_with_what_to_do_instead():
    text = DEPLOYMENT + "prefix_cache: 1\nadapters: 1\n"
    with pytest.raises(SpecError) as caught:
        load_text(text, "f")
    assert len(caught.value.faults) == 2
    assert all("not supported yet" in f.message and f.hint for f in caught.value.faults)


def test_null_leaves_an_unbuilt_field_out():
    assert load_text(DEPLOYMENT + "prefix_cache: null\n", "f").prefix_cache is None


def test_a_file_is_loaded_with_its_path_in_messages(tmp_path):
    path = tmp_path / "d.yaml"
    path.write_text(DEPLOYMENT.replace("batch: 16", "batch: 0"))
    with pytest.raises(SpecError, match=r"d\.yaml:15:12: step\.decode\.batch"):
        load_file(path)


def test_a_deployment_is_loaded_with_settings(tmp_path):
    path = tmp_path / "d.yaml"
    path.write_text(DEPLOYMENT)
    assert load_deployment(path).step.decode.batch == 16
    assert load_deployment(path, ["step.decode.batch=64"]).step.decode.batch == 64


def test_a_missing_deployment_is_no_traceback(tmp_path):
    with pytest.raises(UsageError, match="there is no file"):
        load_deployment(tmp_path / "d.yaml")
