"""torch.compile(backend="tinyir") on a GPU: right, on torch's streams, with torch's memory."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tinyir.runtime.cuda import find_fault

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(find_fault() is not None or not torch.cuda.is_available(), reason="no GPU"),
]


class Layers(torch.nn.Module):
    """Two products, a norm and a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = torch.nn.Linear(64, 96), torch.nn.Linear(96, 40), torch.nn.LayerNorm(96)

    def forward(self, x: Any) -> Any:
        return torch.softmax(self.down(self.norm(torch.relu(self.up(x)))), -1)


class Convolved(torch.nn.Module):
    """A convolution with weights that are packed once."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.BatchNorm2d(64)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.norm(self.first(x))).mean((2, 3))


@pytest.fixture(autouse=True)
def _exact() -> Any:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def compiled(model: Any, **how: Any) -> tuple[Any, list[int]]:
    """The model through the backend, and a list of the nodes of each graph that Dynamo made."""
    from tinyir.dynamo import backend

    graphs: list[int] = []

    def made(module: Any, inputs: Any) -> Any:
        graphs.append(len(module.graph.nodes))
        return backend(module, inputs)

    return torch.compile(model, backend=made, **how), graphs


def near(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=2e-4, atol=2e-4)


def test_results_are_torchs_own_memory_and_live_on() -> None:
    model = Layers().cuda().eval()
    made, graphs = compiled(model)
    inputs = [torch.randn(32, 64, device="cuda") for _ in range(14)]
    kept = [made(x) for x in inputs]
    again = [made(x) for x in inputs]
    for x, y, z in zip(inputs, kept, again):
        near(y, model(x))
        assert torch.equal(y, z)
    assert len(graphs) == 1 and len({y.data_ptr() for y in kept}) == len(kept)


def test_a_dynamic_batch_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from tinyir.dynamo import compiler

    made_pieces: list[Any] = []
    called = compiler.called
    monkeypatch.setattr(compiler, "called", lambda piece, how: made_pieces.append(piece) or called(piece, how))
    model = Layers().cuda().eval()
    made, graphs = compiled(model, dynamic=True)
    for rows in (7, 32, 5, 7, 128, 1, 32):
        x = torch.randn(rows, 64, device="cuda")
        near(made(x), model(x))
    assert len(made_pieces) <= 2  # torch makes a graph of its own of a size of 1


def test_streams_of_torch() -> None:
    model = Layers().cuda().eval()
    made, _ = compiled(model)
    streams = [torch.cuda.Stream() for _ in range(3)]
    for turn in range(12):
        with torch.cuda.stream(streams[turn % 3]):
            x = torch.randn(4096, 64, device="cuda") * (turn + 1)
            y = made(x)
            z = y * 2
            near(z, model(x) * 2)


def test_a_graph_of_the_user_holds_the_program() -> None:
    model = Layers().cuda().eval()
    made, _ = compiled(model)
    x = torch.randn(16, 64, device="cuda")
    for _ in range(3):
        made(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = made(x)
    x.copy_(torch.randn(16, 64, device="cuda"))
    graph.replay()
    torch.cuda.synchronize()
    near(y, model(x))


@pytest.mark.parametrize("kind", [Layers, Convolved])
def test_weights_that_are_written_to_are_read_anew(kind: Any) -> None:
    model = kind().cuda().eval()
    made, graphs = compiled(model)
    x = torch.randn(8, 64, device="cuda") if kind is Layers else torch.randn(2, 64, 28, 28, device="cuda")
    near(made(x), model(x))
    for parameter in model.parameters():
        parameter.mul_(0.5)
    near(made(x), model(x))
    for parameter in model.parameters():
        parameter.data = parameter.data.clone() + 0.1
    near(made(x), model(x))
    near(made(x), model(x))


@pytest.mark.parametrize("kind", [Layers, Convolved])
def test_layers_that_share_a_graph_keep_their_own_weights(kind: Any) -> None:
    """Weights that take turns, that are written to, given back and made again, on several streams and in a graph."""
    shape = (8, 64) if kind is Layers else (2, 64, 28, 28)

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = kind()

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    run, graphs = compiled(Block.forward)
    blocks = [Block().cuda().eval() for _ in range(4)]
    streams = [torch.cuda.Stream() for _ in range(3)]
    for turn in range(6):
        with torch.cuda.stream(streams[turn % 3]):
            for block in blocks:
                x = torch.randn(shape, device="cuda")
                near(run(block, x), block(x))
        if turn == 2:
            for parameter in blocks[1].parameters():
                parameter.mul_(0.5)
        if turn == 3:
            blocks[2] = None  # type: ignore[call-overload]
            blocks[2] = Block().cuda().eval()  # in the memory that was given back
        if turn == 4:
            for parameter in blocks[3].parameters():
                for _ in range(2):  # the second time where the first numbers were
                    parameter.data = torch.randn_like(parameter)
        torch.cuda.synchronize()
    x = torch.randn(shape, device="cuda")
    graph = torch.cuda.CUDAGraph()
    for block in blocks:
        run(block, x)
    with torch.cuda.graph(graph):
        found = [run(block, x) for block in blocks]
    x.copy_(torch.randn(shape, device="cuda"))
    graph.replay()
    torch.cuda.synchronize()
    for block, y in zip(blocks, found):
        near(y, block(x))
    assert len(graphs) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves(dtype: str) -> None:
    model = Layers().cuda().eval().to(getattr(torch, dtype))
    made, _ = compiled(model)
    x = torch.randn(48, 64, device="cuda", dtype=getattr(torch, dtype))
    torch.testing.assert_close(made(x), model(x), rtol=2e-2, atol=2e-2)


def test_a_graph_is_cut_where_an_op_has_no_translation() -> None:
    from tinyir.dynamo import reports
    from tinyir.dynamo.report import CutWarning

    def model(x: Any, w: Any) -> Any:
        return torch.relu(torch.linalg.inv(x @ w + 9 * torch.eye(8, device="cuda"))) @ w

    made, graphs = compiled(model)
    x, w = torch.randn(8, 8, device="cuda"), torch.randn(8, 8, device="cuda")
    with pytest.warns(CutWarning, match="linalg_inv"):
        found = made(x, w)
    near(found, model(x, w))
    assert len(graphs) == 1 and any("linalg_inv" in line for line in reports())
    with warnings.catch_warnings():
        warnings.simplefilter("error", CutWarning)
        near(made(x, w), model(x, w))


def test_training_gives_the_gradients_of_torch() -> None:
    with torch.enable_grad():
        model = Layers().cuda()
        made, _ = compiled(model)
        x = torch.randn(32, 64, device="cuda", requires_grad=True)
        wanted = torch.autograd.grad(model(x)[:, 0].sum(), [x, *model.parameters()])
        for _ in range(3):
            found = torch.autograd.grad(made(x)[:, 0].sum(), [x, *model.parameters()])
        for a, b in zip(found, wanted):
            near(a, b)


def test_inputs_that_are_views() -> None:
    model = Layers().cuda().eval()
    made, _ = compiled(model)
    whole = torch.randn(65, 129, device="cuda")
    for x in (whole[1:, 1:65], whole[:64, :64], whole.t()[:64, :64], whole.reshape(-1)[3 : 3 + 64 * 64].view(64, 64)):
        near(made(x), model(x))


def test_a_program_is_an_op_of_torch() -> None:
    import tinyir
    from tinyir.dynamo import register

    text = "graph<N=1> main(x: f32[N, 8], y: f32[8]) -> (z: f32[N, 8]) { return relu(x * expand(y, [N, 8])) }"
    op = register("tinyir_tests::scaled", tinyir.compile(text, device="cuda"))
    x, y = torch.randn(5, 8, device="cuda"), torch.randn(8, device="cuda")
    for _ in range(3):
        near(op(x, y), torch.relu(x * y))
    near(op(x[:3], y), torch.relu(x[:3] * y))
    traced = torch.compile(lambda a, b: op(a + 1, b) * 2, backend="eager", fullgraph=True)
    near(traced(x, y), torch.relu((x + 1) * y) * 2)


def test_torch_finds_the_backend_by_its_name() -> None:
    from importlib.metadata import entry_points

    if not any(e.name == "tinyir" for e in entry_points(group="torch_dynamo_backends")):
        pytest.skip("tinyir is not installed here, only imported")
    x = torch.randn(4, 64, device="cuda")
    model = Layers().cuda().eval()
    near(torch.compile(model, backend="tinyir")(x), model(x))
