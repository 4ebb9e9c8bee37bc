"""Sixty-odd ways to write a spec wrong, each with the place and the words a reader gets."""

import re

import pytest
from spec_samples import DEPLOYMENT, GPU, MODEL

from planner.errors import SpecError
from planner.spec.load import load_text

RATE = "model: m\ngpu: g\nworkload: {rate: 1, input: 1, output: 1}\n"
LINK = "link: {bandwidth: 50 GB/s, latency: 10 us}"
STEP = "model: m\ngpu: g\nstep: {decode: {batch: 1, context: 8}}\n"


def deployment(old, new):
    assert old in DEPLOYMENT
    return DEPLOYMENT.replace(old, new)


def gpu(old, new):
    assert old in GPU
    return GPU.replace(old, new)


def model(old, new):
    assert old in MODEL
    return MODEL.replace(old, new)


# text, place of one fault (a pattern where PyYAML's two parsers differ), a fragment of that fault
YAML = {
    "comment alone": ("# nothing\n", "1:1", "nothing in this file"),
    "spaces alone": ("  \n \n", "1:1", "nothing in this file"),
    "document marker alone": ("---\n", "2:1", "nothing in this file"),
    "null alone": ("~\n", "1:1", "a spec is a mapping"),
    "list at the top": ("- a\n- b\n", "1:1", "a spec is a mapping"),
    "text at the top": ("just words\n", "1:1", "a spec is a mapping"),
    "two documents": ("a: 1\n---\nb: 2\n", "2:1", "second document"),
    "duplicate key": (STEP + "gpu: h\n", "4:1", "duplicate key 'gpu' (first in line 2)"),
    "duplicate key deep": (
        "a:\n  b: 1\n  c: 2\n  b: 3\n",
        "4:3",
        "duplicate key 'b' (first in line 2)",
    ),
    "duplicate key in quotes": ("a: 1\n'a': 2\n", "2:1", "duplicate key 'a'"),
    "duplicate key in braces": ("a: {b: 1, b: 2}\n", "1:11", "duplicate key 'b'"),
    "number as key": ("a: 1\n4: b\n", "2:1", "a key must be text, not 4 (put it in quotes: '4')"),
    "boolean as key": ("true: b\n", "1:1", "a key must be text, not true"),
    "empty key": ("a: {? : b}\n", "1:7", "a key is empty"),
    "list as key": ("? [a, b]\n: c\n", "1:3", "a key must be text"),
    "alias as key": ("a: &x b\n*x : c\n", "2:1", "a key must be text"),
    "merge key": ("a: &x {b: 1}\nc:\n  <<: *x\n", "3:3", "merge keys are not read"),
    "unknown anchor": ("a: *x\n", "1:4", "anchored as &x"),
    "alias inside itself": ("a: &x [1, *x]\n", "1:11", "*x stands inside what it repeats"),
    "python tag": ("a: !!python/object/apply:os.system [ls]\n", "1:4", "the tag !!python/object"),
    "own tag": ("a: !gpu 4090\n", "1:4", "the tag !gpu is not read"),
    "int tag": ("a: !!int '4'\n", "1:4", "the tag !!int is not read"),
    "tag without handle": ("a: !x!y z\n", "1:4", "a tag that cannot be read"),
    "not a number": ("a: .nan\n", "1:4", ".nan is not a finite number"),
    "infinity": ("a: [1, -.inf]\n", "1:8", "-.inf is not a finite number"),
    "float overflow": ("a: 1e999\n", "1:4", "not finite"),
    "vast whole number": ("a: " + "9" * 30 + "\n", "1:4", "64 bits"),
    "tab indents": ("a:\n\tb: 1\n", "2:1", "a tab cannot indent"),
    "list not closed": ("a: [1, 2\nb: 3\n", "2:2", "a list in [ ] is not closed"),
    "mapping not closed": ("a: {b: 1\n", "2:1", "a mapping in { } is not closed"),
    "double quote not closed": ('a: 1\nb: "text\nc: 2\n', "2:4", "the quote that opens here"),
    "single quote not closed": ("a: 'text\n", "1:4", "the quote that opens here"),
    "colon in text": ("a: b: c\n", "1:5", "a ':' where no key can stand"),
    "key without colon": ("a: 1\nb\n", "3:1", "a key without its ':'"),
    "odd indent": ("a:\n  b: 1\n c: 2\n", "3:2", "this does not line up"),
    "item beside key": ("a:\n- b\nc: 1\n- d\n", "4:1", "does not line up"),
    "percent": ("a: %b\n", "1:4", "no value can begin with '%'"),
    "at sign": ("a: @b\n", "1:4", "no value can begin with '@'"),
    "backtick": ("a: `b`\n", "1:4", "no value can begin with '`'"),
    "unknown escape": ('a: "\\q"\n', "1:[56]", "an unknown escape"),
    "control by escape": ('a: "b\\0"\n', "1:4", "control character"),
    "NUL byte": ("a: b\nc: \0d\n", "2:4", "a NUL byte"),
    "control character": ("a: \x1b[0m\n", "1:4", "U+001B"),
    "bytes not UTF-8": (b"a: b\nc: \xff\n", "2:4", "no UTF-8"),
    "UTF-16": ("a: b\n".encode("utf-16"), "1:1", "no UTF-8"),
    "lone surrogate": ("a: \ud800\n", "1:4", "U+D800"),
    "too deep in brackets": ("a: " + "[" * 64 + "]" * 64 + "\n", "1:67", "deeper than 64"),
    "hopelessly deep": ("[" * 100_000, "1:(65|1001)", "deeper than 64"),
    "too large": ("a: " + "b" * 2**20, "1:1", "larger than 1 MiB"),
    "other YAML": ("%YAML 3.0\n---\na: 1\n", "1:1", "%"),
}

SPEC = {
    "kind missing": ("name: x\n", "1:1", "missing field 'kind' (one of deployment, model"),
    "kind misspelt": ("kind: gpo\n", "1:7", "(did you mean 'gpu'?)"),
    "kind a list": ("kind: [gpu]\n", "1:7", "got a list"),
    "unknown field": (
        deployment("context", "contxt"),
        "16:5",
        "step.decode.contxt: unknown field (did you mean 'context'?)",
    ),
    "unknown field nothing like": (
        deployment("context: 4096", "context: 1\n    zz: 2"),
        "17:5",
        "unknown field (known here: batch, context)",
    ),
    "unknown field at the top": (
        STEP + "gpus: 4\n",
        "4:1",
        "gpus: unknown field (did you mean 'gpu'?)",
    ),
    "unknown field in braces": (
        deployment("{tensor: 1}", "{tensr: 1}"),
        "4:12",
        "(did you mean 'tensor'?)",
    ),
    "missing field": (
        deployment("    batch: 16\n", ""),
        "14:3",
        "step.decode: missing field 'batch'",
    ),
    "missing field at the top": (
        STEP.replace("gpu: g\n", "kind: deployment\n"),
        "1:1",
        "missing field 'gpu'",
    ),
    "text for a number": (
        deployment("batch: 16", "batch: many"),
        "15:12",
        "expected a whole number, got 'many'",
    ),
    "quoted number": (
        deployment("batch: 16", "batch: '16'"),
        "15:12",
        "expected a whole number, got '16' (without quotes)",
    ),
    "fraction for a whole number": (
        deployment("batch: 16", "batch: 1.5"),
        "15:12",
        "expected a whole number, got 1.5",
    ),
    "boolean for a number": (
        deployment("batch: 16", "batch: true"),
        "15:12",
        "expected a whole number, got true",
    ),
    "nothing for a number": (
        deployment("batch: 16", "batch:"),
        "15:11",
        "expected a whole number, got nothing",
    ),
    "zero": (
        deployment("batch: 16", "batch: 0"),
        "15:12",
        "step.decode.batch: must be greater than 0, got 0",
    ),
    "too many": (deployment("batch: 16", "batch: 2000000"), "15:12", "must be at most 1,000,000"),
    "launch of ages": (
        STEP + "host: {launch: 1e300 s}\n",
        "4:16",
        "must be at most 1, got '1e300 s'",
    ),
    "share above one": (deployment("0.9", "1.1"), "12:23", "must be at most 1, got 1.1"),
    "tensor zero": (
        deployment("tensor: 1", "tensor: 0"),
        "4:20",
        "parallel.tensor: must be at least 1",
    ),
    "number for text": (
        deployment('"0.26"', "0.10"),
        "10:12",
        "(put it in quotes: '0.10')",
    ),
    "mapping for text": (
        deployment("gpu: rtx-4090", "gpu: {name: x}"),
        "3:6",
        "gpu: expected text, got a mapping",
    ),
    "text for a mapping": (
        deployment("{tensor: 1}", "one"),
        "4:11",
        "expected a mapping, got 'one' (with tensor, pipeline",
    ),
    "list as flag": (
        deployment("64}", "[1]}"),
        "11:47",
        "expected true or false, a number or text, got a list",
    ),
    "unknown format": (
        deployment("kv_cache: fp8", "kv_cache: fp9"),
        "7:13",
        "must be one of fp32, tf32",
    ),
    "format hint": (deployment("weights: bf16", "weights: bf61"), "6:12", "(did you mean 'bf16'?)"),
    "no unit": (
        deployment("4.5 us", "4.5"),
        "17:16",
        "host.launch: a time needs its unit, as in '4.5 us'",
    ),
    "unit of another kind": (
        deployment("0.69 USD/h", "24 GiB"),
        "18:8",
        "'GiB' is a unit of number of bytes",
    ),
    "unknown unit": (deployment("0.69 USD/h", "1 EUR/h"), "18:8", "unknown unit 'EUR/h'"),
    "two steps": (
        deployment("  decode:\n", "  prefill: {tokens: 4}\n  decode:\n"),
        "14:3",
        "step.prefill: a step is one of decode, prefill, mixed, shapes; this one has decode",
    ),
    "empty step": ("model: m\ngpu: g\nstep: {}\n", "3:7", "must hold one of decode"),
    "neither step nor workload": ("model: m\ngpu: g\n", "1:1", "missing a step or a workload"),
    "step and workload": (STEP + "workload: {batch: 1, input: 2, output: 3}\n", "4:1", "not both"),
    "empty mixed": (
        "model: m\ngpu: g\nstep: {mixed: []}\n",
        "3:15",
        "step.mixed: needs at least 1, has 0",
    ),
    "kv below new": (
        "model: m\ngpu: g\nstep: {mixed: [{count: 1, new_tokens: 8, kv_tokens: 4}]}\n",
        "3:53",
        "step.mixed.0.kv_tokens: must be at least new_tokens = 8, got 4",
    ),
    "nodes without network": (STEP + "nodes: 2\n", "4:1", "several nodes need a network"),
    "network of one node": (
        STEP + "network: {bandwidth: 50 GB/s, latency: 10 us}\n",
        "4:1",
        "one node needs no network",
    ),
    "half a network": (STEP + "network: {bandwidth: 50 GB/s}\n", "4:1", "missing field 'latency'"),
    "uneven nodes": (
        STEP + "nodes: 2\nnetwork: {bandwidth: 50 GB/s, latency: 10 us}\n",
        "4:8",
        "1 GPUs do not lie evenly on 2 nodes",
    ),
    "speculation": (
        STEP + "speculation: {tokens: 3}\n",
        "4:1",
        "speculation: needs either acceptance or length (as in speculation: {tokens: 3",
    ),
    "speculation too long": (
        STEP + "speculation: {tokens: 3, length: 4.5}\n",
        "4:34",
        "speculation.length: a step yields at most tokens + 1 = 4, got 4.5",
    ),
    "speculation of a prompt": (
        "model: m\ngpu: g\nstep: {prefill: {tokens: 8}}\nspeculation: {tokens: 3, length: 2}\n",
        "4:1",
        "only a decode step or a workload has draft tokens to verify",
    ),
    "prefix cache": (STEP + "prefix_cache: 0.5\n", "4:15", "not supported yet"),
    "pools": (STEP + "pools: [a]\n", "4:8", "pools: expected a mapping, got a list"),
    "pools of a step": (
        f"{STEP}pools: {{{LINK}}}\n",
        "4:1",
        "pools: pools serve requests (give workload.concurrency",
    ),
    "ranks of a pool": (
        f"{RATE}pools: {{decode: {{parallel: {{tensor: 4, expert: 3}}}}, {LINK}}}\n",
        "4:48",
        "pools.decode.parallel.expert: 3 do not fit tensor 4",
    ),
    "rate without lengths": (
        "model: m\ngpu: g\nworkload: {rate: 1, input: 1}\n",
        "3:1",
        "workload: missing field 'output'",
    ),
    "lengths of a trace": (
        "model: m\ngpu: g\nworkload: {trace: a.csv, input: 1}\n",
        "3:26",
        "workload.input: a trace brings lengths of its own",
    ),
    "burstiness of users": (
        "model: m\ngpu: g\nworkload: {concurrency: 1, burstiness: 2, input: 1, output: 1}\n",
        "3:28",
        "workload.burstiness: needs workload.rate",
    ),
    "adapters": (STEP + "adapters: 4\n", "4:11", "not supported yet"),
    "expert": (
        STEP + "parallel: {tensor: 4, data: 2, expert: 6}\n",
        "4:40",
        "parallel.expert: 6 do not fit tensor 4 × data 2 ranks (a divisor of 4, or 8",
    ),
    "expert load": (
        STEP + "experts: {load: zipf}\n",
        "4:17",
        "experts.load: must be one of uniform, balanced, power-law",
    ),
    "closed loop of a batch": (
        "model: m\ngpu: g\nworkload: {batch: 4, concurrency: 4, input: 1, output: 1}\n",
        "3:22",
        "workload.concurrency: a workload is one of batch, concurrency, rate, trace (drop",
    ),
    "spread of a batch": (
        "model: m\ngpu: g\nworkload: {batch: 4, input: 1, output: 1, spread: 0.2}\n",
        "3:43",
        "workload.spread: needs workload.concurrency or workload.rate",
    ),
    "workload without batch": (
        "model: m\ngpu: g\nworkload: {input: 1, output: 1}\n",
        "3:1",
        "workload: missing field 'batch' or 'concurrency'",
    ),
    "gpu: figure without unit": (
        gpu("1 TB/s", "1"),
        "15:12",
        "memory.bandwidth.value: a bandwidth needs its unit",
    ),
    "gpu: bare figure of another kind": (
        gpu("72 MiB", "72 MHz"),
        "18:5",
        "l2: 'MHz' is a unit of frequency",
    ),
    "gpu: figure without value": (
        gpu("    value: 1 TB/s\n", ""),
        "14:3",
        "memory.bandwidth: missing field 'value'",
    ),
    "gpu: figure with more": (
        gpu("note: round", "nota: round"),
        "17:5",
        "unknown field (did you mean 'note'?)",
    ),
    "gpu: figure missing": (gpu("vector: 80 TFLOP/s\n", ""), "1:1", "missing field 'vector'"),
    "gpu: unknown format": (gpu("bf16:", "bf17:"), "24:3", "matrix.bf17: must be one of fp32"),
    "gpu: no vendor": (gpu("nvidia", "nvida"), "7:9", "(did you mean 'nvidia'?)"),
    "gpu: bad name": (
        gpu("round-gpu", "Round GPU"),
        "2:7",
        "name: a name holds lower-case letters",
    ),
    "gpu: text for a list": (
        gpu("notes:\n- one\n- two", "notes: one"),
        "31:8",
        "expected a list, got 'one' (write [a, b])",
    ),
    "gpu: yes is text": (
        gpu("peer_to_peer: false", "peer_to_peer: no"),
        "30:17",
        "expected true or false, got 'no' (write true or false)",
    ),
    "model: fraction as dim": (
        model("hidden: 8", "hidden: 8.5"),
        "5:11",
        "dims.hidden: expected a whole number or an expression, got 8.5",
    ),
    "model: use without block": (
        model("{block: embedding}", "{times: 2}"),
        "10:5",
        "sequence.0: missing field 'block'",
    ),
    "model: unknown field of a use": (
        model("{block: embedding}", "{block: embedding, time: 2}"),
        "10:24",
        "sequence.0.time: unknown field (did you mean 'times'?)",
    ),
    "model: repeat zero": (
        model("repeat: 3", "repeat: 0"),
        "11:13",
        "sequence.1.repeat: must be at least 1",
    ),
    "model: nested use": (
        model("times: 2", "times: two"),
        "14:16",
        "sequence.1.blocks.0.times: expected a whole number",
    ),
    "model: use is text": (
        model("{block: embedding}", "embedding"),
        "10:5",
        "sequence.0: expected a mapping, got 'embedding' (with block, times",
    ),
    "model: number among inputs": (
        model("in: [x, y]", "in: [x, 3]"),
        "25:17",
        "blocks.local.nodes.sum.in.1: expected text, got 3",
    ),
    "model: inputs a mapping": (
        model("in: [x, y]", "in: {x: y}"),
        "25:13",
        "expected text or a list, got a mapping",
    ),
    "model: Python's name of a field": (
        model("out: y, features", "outputs: y, features"),
        "22:33",
        "unknown field (did you mean 'out'?)",
    ),
    "model: node without op": (
        model("        op: add\n", ""),
        "23:7",
        "blocks.local.nodes.sum: missing field 'op'",
    ),
    "model: shape not a list": (
        model("{x: [tokens, hidden]}", "{x: tokens}"),
        "20:17",
        "blocks.local.inputs.x: expected a list, got 'tokens'",
    ),
    "model: empty sequence": (
        "kind: model\nname: a\ntitle: a\nsequence: []\n",
        "4:11",
        "sequence: needs at least 1, has 0",
    ),
    "JSON, one line": (
        '{"kind": "prices", "name": "p", "title": "p", "date": 2026, "gpus": {}}',
        "1:55",
        "date: expected text, got 2026",
    ),
}


@pytest.mark.parametrize(
    ("text", "place", "words"), [*YAML.values(), *SPEC.values()], ids=[*YAML, *SPEC]
)
def test_a_malformed_text_is_refused_at_its_place_with_a_sentence(text, place, words):
    with pytest.raises(SpecError) as caught:
        load_text(text, "f.yaml")
    said = [str(fault).split("\n")[0] for fault in caught.value.faults]
    here = re.compile(f"f.yaml:{place}: ")
    assert [line for line in said if here.match(line) and words in line], said


@pytest.mark.parametrize(("text", "place", "words"), SPEC.values(), ids=SPEC)
def test_one_mistake_in_a_field_makes_one_fault(text, place, words):
    with pytest.raises(SpecError) as caught:
        load_text(text, "f.yaml")
    assert len(caught.value.faults) == 1, caught.value


@pytest.mark.parametrize(
    ("text", "place", "words"), [*YAML.values(), *SPEC.values()], ids=[*YAML, *SPEC]
)
def test_a_fault_speaks_no_jargon_of_libraries(text, place, words):
    with pytest.raises(SpecError) as caught:
        load_text(text, "f.yaml")
    for jargon in ("Input should", "pydantic", "Value error", "dictionary", "tuple", "[key]"):
        assert jargon not in str(caught.value)


def test_there_are_sixty_malformed_texts():
    assert len(YAML) + len(SPEC) >= 60
