"""What a deployment names, looked up in one go."""

import pytest
from spec_samples import DEPLOYMENT

from planner.errors import SpecError
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask, blocks_of

MODEL = """\
kind: model
name: two-unknown
title: A model of blocks that nobody wrote
dims: {hidden: 64, layers: 2}
inputs: {tokens: [tokens]}
weights: fp16
sequence:
  - {block: no-such-block}
  - {block: nor-this-one, times: 2}
"""


def test_every_unknown_name_is_told_at_once():
    text = (
        DEPLOYMENT.replace("model: qwen2.5-7b-instruct", "model: qwen2.5-7b-instrct")
        .replace("gpu: rtx-4090", "gpu: rtx-4091")
        .replace("name: vllm", "name: vlm")
    )
    deployment = load_text(f"{text}calibration: nobody\n", "deploy.yaml", "deployment")
    with pytest.raises(SpecError) as caught:
        ask(deployment, Catalog.standard())
    told = [(fault.where.line, fault.hint) for fault in caught.value.faults]
    assert told == [
        (2, "did you mean 'qwen2.5-7b-instruct'?"),
        (3, "did you mean 'rtx-4090'?"),
        (9, "did you mean 'vllm'?"),
        (19, "`planner catalog list calibrations`"),
    ]


def test_every_unknown_block_is_told_at_once():
    with pytest.raises(SpecError) as caught:
        blocks_of(load_text(MODEL, "model.yaml", "model"), Catalog.standard())
    assert [fault.where.line for fault in caught.value.faults] == [8, 9]
