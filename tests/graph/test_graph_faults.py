"""What can be wrong with a model, each at its line and column and with a hint where there is one."""

import pytest
from graph_samples import BF16, FP8, PIPE, TINY, changed, faults, graph, place

from planner.errors import SpecError
from planner.graph.build import model_graph
from planner.spec.load import load_file

ONE = "one: {op: linear, in: x, out: a, features: hidden}"
TWO = "two: {op: relu, in: a, out: b}"
THREE = "three: {op: add, in: [x, b], out: y}"
CHAIN = """\
sequence:
  - {block: step}
  - {block: other}
blocks:
  other:
    name: other
    inputs: {z: [batch, 2 * hidden]}
    nodes:
      half: {op: linear, in: z, out: w, features: hidden}
    outputs: [w]
"""

WRONG = {
    "an unknown operator": (
        [(ONE, ONE.replace("linear", "liner"))],
        "liner",
        "unknown operator 'liner' (did you mean 'linear'?)",
    ),
    "an operator like no other": (
        [(ONE, ONE.replace("linear", "zzz"))],
        "zzz",
        "unknown operator 'zzz' (see `planner catalog list ops`)",
    ),
    "a misspelt attribute": (
        [(ONE, ONE.replace("features", "featurs"))],
        "featurs",
        "operator 'linear' has no attribute 'featurs' (did you mean 'features'?)",
    ),
    "an attribute that an operator without any is given": (
        [(TWO, TWO.replace("out: b", "out: b, slope: 2"))],
        "slope",
        "operator 'relu' has no attribute 'slope' ('relu' takes none)",
    ),
    "a missing attribute": (
        [(ONE, ONE.replace(", features: hidden", ""))],
        "one:",
        "operator 'linear' needs 'features'",
    ),
    "an attribute over a name nobody defines": (
        [(ONE, ONE.replace("features: hidden", "features: hiden"))],
        "hiden",
        "unknown name 'hiden' (did you mean 'hidden'?)",
    ),
    "an attribute that comes to a fraction": (
        [(ONE, ONE.replace("features: hidden", "features: hidden / 3"))],
        "hidden / 3",
        "'hidden / 3' comes to 8/3, no whole number",
    ),
    "an attribute that comes to nought": (
        [(ONE, ONE.replace("features: hidden", "features: hidden - 8"))],
        "hidden - 8",
        "'hidden - 8' comes to 0, must be greater than 0",
    ),
    "an attribute that is no whole number": (
        [(ONE, ONE.replace("features: hidden", "features: [9]"))],
        "[9]",
        "expected a whole number or dims, got (9,)",
    ),
    "a truth value that is none": (
        [(ONE, ONE.replace("features: hidden", "features: hidden, bias: maybe"))],
        "maybe",
        "expected true, false or the name of an option, got 'maybe'",
    ),
    "a choice that is none": (
        [(ONE, ONE.replace("features: hidden", "features: hidden, shard: colum"))],
        "colum",
        "expected one of none, column, row, partial, kv, vocab; got 'colum' (did you mean 'column'?)",
    ),
    "a tensor that nothing writes": (
        [(TWO, TWO.replace("in: a", "in: aa"))],
        "aa",
        "nothing writes the tensor 'aa' that 'two' reads (did you mean 'a'?)",
    ),
    "an unknown tensor in a list": (
        [(THREE, THREE.replace("[x, b]", "[x, bbbbb]"))],
        "bbbbb",
        "nothing writes the tensor 'bbbbb' that 'three' reads",
    ),
    "a tensor written twice": (
        [(ONE, ONE + "\n      four: {op: relu, in: x, out: a}")],
        "a}\n      two",
        "'a' is already written by 'one'",
    ),
    "a tensor that is written and an input": (
        [(ONE, ONE + "\n      four: {op: relu, in: a, out: x}")],
        "x}\n      two",
        "'x' is an input of the block",
    ),
    "an output that no node writes": (
        [("outputs: [y]", "outputs: [yy]")],
        "yy",
        "no node writes the output 'yy' (did you mean 'y'?)",
    ),
    "an output that is an input": (
        [("outputs: [y]", "outputs: [x]")],
        None,
        "output 'x' is an input: a block must do some work",
    ),
    "too few tensors read": (
        [(THREE, THREE.replace("[x, b]", "x"))],
        "three:",
        "node 'three': operator 'add' reads 2 tensors, got 1",
    ),
    "too many tensors read": (
        [(TWO, TWO.replace("in: a", "in: [a, x]"))],
        "two:",
        "node 'two': operator 'relu' reads 1 tensors, got 2",
    ),
    "too many tensors written": (
        [(TWO, TWO.replace("out: b", "out: [b, c]"))],
        "two:",
        "node 'two': 'relu' writes 1 tensors, but 2 are named",
    ),
    "inputs of different shapes": (
        [(ONE, ONE.replace("features: hidden", "features: 2 * hidden"))],
        "three:",
        "node 'three': its inputs differ in shape: [batch, 8] and [batch, 16]",
    ),
    "a shape that its producer contradicts": (
        [("outputs: [y]", "outputs: [y]\n    shapes: {a: [batch, 9]}")],
        "[batch, 9]",
        "'a' is declared [batch, 9], but its producer writes [batch, 8]",
    ),
    "a shape of no tensor": (
        [("outputs: [y]", "outputs: [y]\n    shapes: {yy: [batch, 9]}")],
        "yy",
        "no tensor is named 'yy' (did you mean 'y'?)",
    ),
    "a shape with an unknown name": (
        [("outputs: [y]", "outputs: [y]\n    shapes: {a: [batch, hiden]}")],
        "hiden",
        "unknown name 'hiden' (did you mean 'hidden'?)",
    ),
    "a side that is no product": (
        [("outputs: [y]", "outputs: [y]\n    shapes: {a: [batch + 1, hidden]}")],
        "batch + 1",
        "cannot add batch and 1: only like sizes add up",
    ),
    "a side that rounds what only the load knows": (
        [("outputs: [y]", "outputs: [y]\n    shapes: {a: [batch // 2, hidden]}")],
        "batch // 2",
        "cannot round batch divided by 2: only the load knows batch",
    ),
    "a side that comes to nought": (
        [("outputs: [y]", "outputs: [y]\n    shapes: {a: [batch, hidden - 8]}")],
        "hidden - 8",
        "'hidden - 8' comes to 0, not to a whole number above 0",
    ),
    "a side that comes to a fraction": (
        [("outputs: [y]", "outputs: [y]\n    shapes: {a: [batch / 3, hidden]}")],
        "batch / 3",
        "'batch / 3' comes to 1/3*batch, not to a whole number above 0",
    ),
    "a dim over a name nobody defines": (
        [("dims: {hidden: 8}", "dims: {hidden: 8, wide: 2 * hiddn}")],
        "2 * hiddn",
        "dim 'wide' needs 'hiddn', which is not defined (did you mean 'hidden'?)",
    ),
    "a dim that comes to a fraction": (
        [("dims: {hidden: 8}", "dims: {hidden: 8, third: hidden / 3}")],
        "hidden / 3",
        "'hidden / 3' comes to 8/3, no whole number",
    ),
    "a dim that comes to nought": (
        [("dims: {hidden: 8}", "dims: {hidden: 8, none: hidden - 8}")],
        "hidden - 8",
        "'hidden - 8' comes to 0, must be greater than 0",
    ),
    "a dim of one use over an unknown name": (
        [("- {block: step}", "- {block: step, with: {size: 2 * hiden}}")],
        "2 * hiden",
        "unknown name 'hiden' (did you mean 'hidden'?)",
    ),
    "a name that the planner gives itself": (
        [(ONE, ONE + "\n      c: {op: softmax, in: a, out: attention.x}"),
         ("outputs: [y]", "outputs: [attention.x]"),
         (TWO, "attention: {op: relu, in: attention.x, out: b}\n      attention.y: {op: relu, in: b}")],
        None,
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, case in WRONG.items() if case[2]])
def test_a_fault_has_its_place_its_sentence_and_its_hint(name):
    changes, fragment, sentence = WRONG[name]
    text = changed(PIPE, *changes)
    [found] = faults(text)
    where, message = found.split(": ", maxsplit=1)
    assert message == sentence
    if fragment:
        assert where == place(text, fragment)


def test_dotted_names_of_ones_own_are_fine():
    assert not faults(changed(PIPE, *WRONG["a name that the planner gives itself"][0]))


def test_a_cycle_is_shown_as_its_path():
    text = changed(PIPE, (ONE, ONE.replace("in: x", "in: b")))
    assert faults(text) == [f"{place(text, 'one:')}: the graph has a cycle: one -> two -> one"]


def test_a_node_that_reads_itself_is_a_cycle():
    text = changed(PIPE, (TWO, TWO.replace("in: a", "in: b")))
    assert faults(text) == [f"{place(text, 'two:')}: the graph has a cycle: two -> two"]


def test_dims_defined_in_a_circle_are_all_named():
    text = changed(PIPE, ("dims: {hidden: 8}", "dims: {hidden: 8, a: b + 1, b: 2 * a}"))
    assert faults(text) == [
        f"{place(text, 'b + 1')}: dim 'a' is defined in a circle",
        f"{place(text, '2 * a')}: dim 'b' is defined in a circle",
    ]


def test_a_block_that_does_not_take_what_the_one_before_hands_over():
    text = changed(PIPE, ("sequence:\n  - {block: step}\nblocks:\n", CHAIN))
    [found] = faults(text)
    assert found == (
        f"{place(text, 'other}')}: block 'other' takes 'z' as [batch, 16], "
        "but the block before it hands over 'y' as [batch, 8]"
    )


def test_a_block_that_cannot_follow_itself():
    text = changed(
        PIPE, ("- {block: step}", "- {block: step, times: 2}"), ("outputs: [y]", "outputs: [y, b]")
    )
    assert faults(text) == [
        f"{place(text, 'step, times')}: block 'step' takes 1 tensors, but itself hands over 2"
    ]


def test_a_model_whose_inputs_the_first_block_does_not_take():
    text = changed(
        PIPE, ("inputs: {x: [batch, hidden]}\nsequence", "inputs: {x: [batch, 9]}\nsequence")
    )
    [found] = faults(text)
    assert found == (
        f"{place(text, 'step}')}: block 'step' takes 'x' as [batch, 8], "
        "but the block before it hands over 'x' as [batch, 9]"
    )


def test_all_faults_of_a_block_are_told_at_once():
    text = changed(
        PIPE,
        (ONE, ONE.replace("linear", "liner")),
        (TWO, TWO.replace("out: b", "out: b, slope: 2")),
    )
    assert [fault.split(": ", maxsplit=1)[0] for fault in faults(text)] == [
        place(text, "liner"),
        place(text, "slope"),
    ]


def test_a_fault_shows_the_line_it_stands_in():
    text = changed(PIPE, (TWO, TWO.replace("relu", "rellu")))
    with pytest.raises(SpecError) as error:
        graph(text)
    lines = str(error.value).splitlines()
    assert lines[1].endswith("two: {op: rellu, in: a, out: b}")
    assert lines[2].index("^") == lines[1].index("rellu")


def test_a_model_in_a_file_is_named_by_its_path(tmp_path):
    path = tmp_path / "model.yaml"
    path.write_text(changed(PIPE, (TWO, TWO.replace("relu", "rellu"))))
    spec = load_file(path, "model")
    with pytest.raises(SpecError) as error:
        model_graph(spec, spec.blocks, BF16)
    assert str(error.value).startswith(f"{path}:14:17: unknown operator 'rellu'")


def test_heads_that_do_not_divide_over_the_ranks_are_refused_at_their_node():
    assert faults(TINY, ranks=3)[0] == (
        f"{place(TINY, 'q_proj:')}: node 'q_proj': 8 heads of 8 do not divide over 3 tensor-parallel ranks"
    )


def test_a_name_that_the_planner_gave_to_a_part_is_refused():
    text = changed(TINY, ("act: {op: gelu, in: up,", "attention.scores: {op: gelu, in: up,"))
    [found] = faults(text)
    assert found == (
        f"{place(text, 'attention.scores:')}: node 'attention.scores': "
        "the name 'attention.scores' is given to two things; rename yours"
    )


def test_a_tensor_named_like_a_quantised_copy_is_refused_and_not_taken_for_it():
    residual = "residual: {op: add, in: [x, projected], out: middle}"
    twin = "\n      twin: {op: relu, in: middle, out: middle.quant}"
    text = changed(TINY, (residual, residual + twin))
    assert not faults(text, BF16)
    [found] = faults(text, FP8)
    assert found.endswith("the name 'middle.quant' is given to two things; rename yours")
