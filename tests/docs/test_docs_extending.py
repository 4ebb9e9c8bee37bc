"""A model of one's own is one file of dims: those of docs/extending.md load, add up and plan."""

import json

import pytest
from docs_pages import ROOT, blocks

from planner.graph.build import model_graph
from planner.graph.totals import parameters
from planner.ops.types import Formats
from planner.plan.assemble import assemble
from planner.spec import hf
from planner.spec.catalog import Catalog
from planner.spec.hf.draft import Draft
from planner.spec.hf.families.llama import Defaults, plain, started
from planner.spec.hf.fields import Config
from planner.spec.hf.registry import architecture
from planner.spec.load import deployment_of, load_text
from planner.spec.question import ask, blocks_of
from planner.spec.source import compose

MODELS = blocks("docs/extending.md", "yaml")
FORMATS = Formats("bf16", "bf16", "bf16", "bf16")


@pytest.mark.parametrize("text", MODELS)
def test_one_file_of_dims_is_a_model_that_plans(text, tmp_path):
    """Dense and with experts: the parameters are those published, and a step is planned."""
    catalog = Catalog.standard()
    model = load_text(text, "docs/extending.md", "model")
    assert parameters(model_graph(model, blocks_of(model, catalog), FORMATS)) == (
        model.published.parameters
    )
    (tmp_path / "tiny.yaml").write_text(text)
    asked = {
        "model": str(tmp_path / "tiny.yaml"),
        "gpu": "rtx-4090",
        "step": {"decode": {"batch": 4, "context": 1024}},
    }
    plan = assemble(ask(deployment_of(*compose(json.dumps(asked), "deploy.json")), catalog))
    assert plan.step.time_s > 0


def test_there_is_a_dense_model_and_one_with_experts():
    """The page shows both, and that nothing but dims is needed."""
    assert ["blocks:" in text for text in MODELS] == [False, False]
    assert ["experts:" in text for text in MODELS] == [False, True]


def test_a_new_class_of_a_known_layer_is_one_function():
    """The function of the page reads a config of the class it names."""
    (code,) = blocks("docs/extending.md", "python")
    names = {
        "architecture": architecture,
        "Config": Config,
        "Draft": Draft,
        "Defaults": Defaults,
        "started": started,
        "plain": plain,
    }
    try:
        exec(code, names)
        config = json.dumps({"architectures": ["NewForCausalLM"], "hidden_size": 4096})
        catalog = Catalog.standard()
        found = hf.converted(
            *compose(config, "config.json"), lambda name: catalog.find("block", name)
        )
        assert found.data["dims"]["intermediate"] == 11008
    finally:
        hf.ARCHITECTURES._things.pop("NewForCausalLM", None)


def test_the_config_of_the_page_on_imports_is_planned():
    """A deployment may name a config.json, quantised as it ships."""
    asked = {
        "model": str(ROOT / "docs/examples/import/config.json"),
        "gpu": "rtx-4090",
        "step": {"decode": {"batch": 8, "context": 4096}},
    }
    catalog = Catalog.standard()
    plan = assemble(ask(deployment_of(*compose(json.dumps(asked), "deploy.json")), catalog))
    assert plan.memory.fits
