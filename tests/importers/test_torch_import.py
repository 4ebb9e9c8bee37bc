"""torch.export programs as model specs, with torch itself."""

import json

import pytest

from planner.errors import UsageError
from planner.graph.build import model_graph
from planner.graph.totals import kv_bytes_per_token, parameters
from planner.importers.exported.read import Options, converted
from planner.importers.exported.torch_file import torch_export
from planner.ops.types import Formats
from planner.spec.load import load_text
from planner.spec.write import written

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")
WIDE = Formats("bf16", "bf16", "bf16", "bf16")


def small_decoder():
    """A decoder; made here, for torch need not be there when these tests are collected."""
    nn, F = torch.nn, torch.nn.functional

    class Norm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(width))

        def forward(self, x):
            wide = x.float()
            root = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
            return self.weight * (wide * root).to(x.dtype)

    class Layer(nn.Module):
        def __init__(self, hidden, heads, kv_heads, inner):
            super().__init__()
            self.sizes = heads, kv_heads, hidden // heads
            dim = hidden // heads
            self.input_norm, self.post_norm = Norm(hidden), Norm(hidden)
            self.q_proj = nn.Linear(hidden, heads * dim)
            self.k_proj = nn.Linear(hidden, kv_heads * dim)
            self.v_proj = nn.Linear(hidden, kv_heads * dim)
            self.o_proj = nn.Linear(heads * dim, hidden, bias=False)
            self.gate_proj = nn.Linear(hidden, inner, bias=False)
            self.up_proj = nn.Linear(hidden, inner, bias=False)
            self.down_proj = nn.Linear(inner, hidden, bias=False)

        def forward(self, x, cos, sin):
            heads, kv_heads, dim = self.sizes
            n, length, hidden = x.shape
            h = self.input_norm(x)
            q = self.q_proj(h).view(n, length, heads, dim).transpose(1, 2)
            k = self.k_proj(h).view(n, length, kv_heads, dim).transpose(1, 2)
            v = self.v_proj(h).view(n, length, kv_heads, dim).transpose(1, 2)
            q, k = (
                t * cos + torch.cat((-t[..., dim // 2 :], t[..., : dim // 2]), -1) * sin
                for t in (q, k)
            )
            k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.o_proj(o.transpose(1, 2).reshape(n, length, hidden))
            m = self.post_norm(x)
            return x + self.down_proj(F.silu(self.gate_proj(m)) * self.up_proj(m))

    class Decoder(nn.Module):
        def __init__(self, vocab=100, hidden=64, layers=3):
            super().__init__()
            self.embed_tokens = nn.Embedding(vocab, hidden)
            self.layers = nn.ModuleList(Layer(hidden, 8, 2, 96) for _ in range(layers))
            self.norm, self.lm_head = Norm(hidden), nn.Linear(hidden, vocab, bias=False)
            self.lm_head.weight = self.embed_tokens.weight
            self.register_buffer("inv_freq", 10000.0 ** -(torch.arange(0, 8, 2) / 8))

        def forward(self, input_ids, position_ids):
            angles = position_ids[:, :, None].float() * self.inv_freq
            wide = torch.cat((angles, angles), -1)[:, None]
            x = self.embed_tokens(input_ids)
            for layer in self.layers:
                x = layer(x, wide.cos(), wide.sin())
            return self.lm_head(self.norm(x))

    return Decoder().eval()


def small_net():
    """Convolutions, grouped and not, with a batch norm."""
    nn, F = torch.nn, torch.nn.functional

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 16, 3, 2, 1, bias=False)
            self.bn = nn.BatchNorm2d(16)
            self.blocks = nn.ModuleList(
                nn.Sequential(
                    nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.ReLU(), nn.Conv2d(16, 16, 1)
                )
                for _ in range(3)
            )
            self.head = nn.Linear(16, 5)

        def forward(self, x):
            x = F.relu(self.bn(self.stem(x)))
            for block in self.blocks:
                x = x + block(x)
            return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))

    return Net().eval()


@pytest.fixture
def decoder(tmp_path):
    """A small decoder's module, and the file its program was saved to."""
    module = small_decoder()
    ids = torch.zeros(2, 7, dtype=torch.long)
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    program = torch.export.export(module, (ids, ids), dynamic_shapes=(axes, axes))
    torch.export.save(program, tmp_path / "decoder.pt2")
    return module, tmp_path / "decoder.pt2"


def imported(file, **options):
    found = converted(torch_export(file), "model", file.name, Options(**options))
    model = load_text(written(found.data), "spec", "model")
    return found, model_graph(model, model.blocks, WIDE)


def counted(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_a_decoders_parameters_are_those_of_its_module(decoder):
    module, file = decoder
    found, graph = imported(file)
    assert parameters(graph) == counted(module)
    assert kv_bytes_per_token(graph) == 3 * 2 * 2 * 8 * 2
    assert found.data["sequence"] == [
        {"block": "begin"}, {"block": "layer", "times": 3}, {"block": "end"},
    ]  # fmt: skip
    layer = found.data["blocks"]["layer"]["nodes"]
    assert (layer["attention"]["heads"], layer["attention"]["kv_heads"]) == (8, 2)
    assert layer["rope"]["in"] == ["q_proj", "k_proj"]
    ends = found.data["blocks"]["end"]["nodes"].values()
    assert [node.get("tied") for node in ends] == [None, True]


def test_a_network_of_convolutions_keeps_its_own_axes(tmp_path):
    module = small_net()
    axes = ({0: torch.export.Dim("n")},)
    program = torch.export.export(module, (torch.rand(2, 3, 32, 32),), dynamic_shapes=axes)
    torch.export.save(program, tmp_path / "net.pt2")
    found, graph = imported(tmp_path / "net.pt2")
    assert parameters(graph) == counted(module)
    assert found.data["inputs"] == {"x": ["batch", 3, 32, 32]}
    assert found.data["sequence"][1] == {"block": "layer", "times": 3}


def test_a_program_is_planned_from_the_command_line(decoder, tmp_path, capsys, monkeypatch):
    from planner.cli.main import main

    monkeypatch.setenv("PLANNER_DB", str(tmp_path / "plans.db"))
    monkeypatch.chdir(tmp_path)

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main(words)
        return ended.value.code, capsys.readouterr()

    assert run("import", "torch", "decoder.pt2", "-o", "model.yaml", "--last-token")[0] == 0
    text = "model: ./model.yaml\ngpu: rtx-4090\nstep: {decode: {batch: 4, context: 64}}\n"
    (tmp_path / "deploy.yaml").write_text(text)
    code, said = run("plan", "deploy.yaml", "--json", "--no-advice")
    assert (code, said.err) == (0, "")
    assert json.loads(said.out)["model"]["parameters"] == counted(decoder[0])


def test_what_is_no_program_is_refused(tmp_path):
    (tmp_path / "bad.pt2").write_bytes(b"no program")
    with pytest.raises(UsageError, match=r"no torch\.export program"):
        torch_export(tmp_path / "bad.pt2")
    with pytest.raises(UsageError, match="cannot be read"):
        torch_export(tmp_path / "none.pt2")


def test_an_operator_that_no_node_is_for_is_refused_by_name(tmp_path):
    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.fft.rfft(x).abs()

    torch.export.save(torch.export.export(Odd(), (torch.rand(4, 8),)), tmp_path / "odd.pt2")
    with pytest.raises(UsageError, match=r"1 × aten\.fft_rfft"):
        imported(tmp_path / "odd.pt2")


def test_stacked_tensors_stay_part_of_the_model(tmp_path):
    """Two halves, gated, stacked, squared: 2 × (4, 3) becomes (4, 2, 3)."""

    class Stacked(torch.nn.Module):
        def forward(self, x):
            F = torch.nn.functional
            return torch.stack((F.glu(x, -1), torch.sin(x[:, :3])), 1).square()

    found, graph = saved(Stacked(), torch.rand(4, 6), tmp_path)
    block = next(iter(found.data["blocks"].values()))
    ops = [node["op"] for node in block["nodes"].values()]
    assert ops == ["elementwise", "columns", "elementwise", "copy", "elementwise"]
    (end,) = graph.kinds[0].outputs
    assert [str(side) for side in graph.kinds[0].tensors[end].shape] == ["4", "2", "3"]


def test_images_are_made_larger_by_neighbours_and_by_shuffling(tmp_path):
    """(1, 4, 3, 3) doubled is (1, 4, 6, 6); four channels of that are one of (12, 12)."""

    class Larger(torch.nn.Module):
        def forward(self, x):
            F = torch.nn.functional
            return F.pixel_shuffle(F.interpolate(x, scale_factor=2.0, mode="nearest"), 2)

    _, graph = saved(Larger(), torch.rand(1, 4, 3, 3), tmp_path)
    (end,) = graph.kinds[0].outputs
    assert [str(side) for side in graph.kinds[0].tensors[end].shape] == ["1", "1", "12", "12"]


def saved(module, given, tmp_path):
    torch.export.save(torch.export.export(module, (given,)), tmp_path / "net.pt2")
    return imported(tmp_path / "net.pt2")
