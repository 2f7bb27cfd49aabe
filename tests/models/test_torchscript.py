"""TorchScript is checked before it is loaded: what a model may call, and archives that two readers read differently."""

import ast
import gc
import io
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from glaim_stream.core.errors import ModelError
from glaim_stream.models.operators import ALLOWED, GLAIM
from glaim_stream.models.torchscript import operators_of, require_known_operators
from tests.support import torchscript

REPOSITORY = Path(__file__).parents[2] / "model_repo"
SHIPPED = sorted(REPOSITORY.glob("*/*/model.pt"))


def with_entry(name: str, content: bytes | str, weights: bytes | None = None) -> bytes:
    out = io.BytesIO(weights if weights is not None else torchscript())
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


def in_source(source: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("model/code/__torch__.py", source)
    return out.getvalue()


def test_a_parse_in_between_is_no_fault_of_the_model() -> None:
    """CPython issue 106905, which two threads that load models provoke as the collector does here."""
    left, weights, collector = True, SHIPPED[0].read_bytes(), gc.get_threshold()

    def interrupt(phase: str, _: object) -> None:
        nonlocal left
        if phase == "start" and left and sys._getframe(1).f_code is ast.parse.__code__:
            left = False
            ast.parse("x = 1")

    gc.callbacks.append(interrupt)
    gc.set_threshold(50)
    try:
        require_known_operators(weights)
    finally:
        gc.set_threshold(*collector)
        gc.callbacks.remove(interrupt)
    assert not left


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parts[-3])
def test_a_shipped_model_uses_known_operators(path: Path) -> None:
    require_known_operators(path.read_bytes())
    assert len(operators_of(path.read_bytes())) > 60


def test_the_list_is_what_the_exports_of_every_variant_use() -> None:
    torch = pytest.importorskip("torch", reason="the extra `local` is not installed")
    import numpy as np

    from training.data import Scale
    from training.network import GLAIMConfig, build_network
    from training.serve import script, served_model

    found = {operator for path in SHIPPED for operator in operators_of(path.read_bytes())}
    variants: list[dict[str, Any]] = [
        {"residual": True}, {"cascade": True, "own_form": True},
        dict.fromkeys(("use_staglo", "use_sacoref", "use_prior", "use_gate"), False),
    ]  # fmt: skip
    for variant in variants:
        sizes = GLAIMConfig(
            3, window=24, d_model=8, layers=2, ffn=8, heads=2, d_psi=8, d_g=2, large_kernel=7, **variant
        )
        out = io.BytesIO()
        torch.jit.save(script(served_model(build_network(sizes), Scale(*(np.ones(3),) * 4), 6)), out)
        found |= operators_of(out.getvalue())
    assert found == GLAIM
    assert not {name for name in ALLOWED if "save" in name or "file" in name or "PythonOp" in name}


# Each of these was loaded by torch.jit.load before there was a check.
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("    return torch.from_file('/etc/passwd', True, 10)\n", "they use aten::from_file"),
        ("    torch.save([VALUES], '/tmp/stolen')\n    return VALUES\n", "they use aten::save"),
        ("    return ops.prim.PythonOp(VALUES)\n", "they use prim::PythonOp"),
        ("    return ops.mine.evil(VALUES)\n", "they use mine::evil"),
        ("    return torch.lstm(torch.as_strided(VALUES, [9], [1]))\n", "they use aten::as_strided"),
        ("    return ('/etc/passwd').from_file(True, 10)\n", "expected no call of '/etc/passwd'.from_file"),
        ("    f = torch.from_file\n    return f('/etc/passwd')\n", "expected no call of f"),
        ("    f = [torch.from_file]\n    return VALUES\n", "expected torch in calls only"),
        ("    f = torch\n    return VALUES\n", "expected torch in calls only"),
        ("    x = ops\n    return VALUES\n", "expected ops in calls only"),
        ("    range = VALUES\n    return VALUES\n", "expected no new meaning of range"),
        ("    self = '/etc/passwd'\n    return self.from_file(True, 10)\n", "expected no new meaning of self"),
        ("    return getattr('/etc/passwd', 'from_file')(True, 10)\n", "expected no call of getattr"),
        ("    return self.path.from_file(True, 10)\n", "expected no call of self.path.from_file"),
        ("    return (VALUES).from_file(True)\n", "expected no call of VALUES.from_file"),
        ("    x: __torch__.torch.classes.mine.Evil = VALUES\n    return x\n", "expected no class of a library"),
        ("    return [torch.add(x, 1) for x in VALUES]\n", "expected no ListComp"),
        ("    with torch.add(VALUES, 1):\n      return VALUES\n", "expected no With"),
        ("    import os\n    return VALUES\n", "expected no Import"),
        ("    return print('a')\n", "expected no call of print"),
        ("    # type: (Tensor) -> Tensor\n    return VALUES\n", "no comment"),
        ('    """\n    return torch.save(VALUES)\n    """\n    return VALUES\n', "no unusual text"),
        ("    x = r'\\'; torch.save(VALUES, ''\n    return VALUES\n", "cannot be read|no unusual text"),
        ("    return VALUES\n  def f(a: str, self: str) -> str:\n    return self.from_file()\n", "self as the first"),
        ("    def inner(self: str):\n      return self.from_file()\n    return VALUES\n", "no inner within other code"),
        ("    return \u0424\n", "cannot be read"),
        ("    return VALUES\f\n", "control characters"),
    ],
)  # fmt: skip
def test_what_does_not_compute_is_refused_and_named(code: str, reason: str) -> None:
    with pytest.raises(ModelError, match=f"^the weights are not loaded: .*({reason})"):
        require_known_operators(torchscript(code))


def test_a_function_with_an_argument_self_is_refused() -> None:
    with pytest.raises(ModelError, match="expected no function with an argument self"):
        require_known_operators(in_source("def f(self: str) -> str:\n  return self.from_file()\n"))


def test_an_operator_can_be_admitted() -> None:
    weights = torchscript("    return torch.fft_rfft(VALUES)\n")
    with pytest.raises(ModelError, match="they use aten::fft_rfft, expected only operators that compute"):
        require_known_operators(weights)
    require_known_operators(weights, frozenset({"aten::fft_rfft"}))


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        (b"", "cannot be read as such"),
        (b"not an archive", "cannot be read as such"),
        (torchscript()[:-30], "cannot be read as such"),
        (b"MZ" + torchscript(), "nothing before or after it"),
        (torchscript() + torchscript(), "nothing before or after it"),
        (with_entry("model/CODE/__torch__.py", "x = 1\n"), "no name twice"),
        (with_entry("other/code/__torch__.py", "x = 1\n"), "one folder"),
        (with_entry("model/code/../../x.py", "x = 1\n"), r"expected no 'code/\.\./\.\./x\.py' in the archive"),
        (with_entry("model/code/x\n.py", "x = 1\n"), "expected no 'code/x"),
        (with_entry("model/bytecode.pkl", b"."), "expected no 'bytecode.pkl'"),
        (with_entry("model/data.pkl", b"c__builtin__\neval\n."), "data.pkl names '__builtin__ eval'"),
        (with_entry("model/data.pkl", b"c__torch__.torch.classes.mine\nEvil\n."), "data.pkl names"),
        (with_entry("model/data.pkl", b"\x8c\x02os\x8c\x06system\x93."), "data.pkl uses STACK_GLOBAL"),
        (with_entry("model/data.pkl", b"\xff"), "data.pkl is not a pickle"),
        (with_entry("model/code/deep.py", "x = " + "(" * 5000 + ")" * 5000 + "\n"), "cannot be read"),
    ],
)  # fmt: skip
def test_an_archive_that_could_be_read_in_two_ways_is_refused(weights: bytes, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        require_known_operators(weights)


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/code/__torch__.py", " " * 100_000_000)
    with pytest.raises(ModelError, match="expected code of at most"):
        require_known_operators(out.getvalue())


def test_torch_runs_code_while_it_loads_a_file_and_the_check_comes_before(tmp_path: Path) -> None:
    """Why the check does not load the file: `__setstate__` runs in torch.jit.load."""
    torch: Any = pytest.importorskip("torch", reason="the extra `local` is not installed")
    stolen = tmp_path / "stolen"

    class Evil(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, path: str) -> None:
            super().__init__()
            self.path = path

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return values

        @torch.jit.export
        def __getstate__(self) -> tuple[str, bool]:
            return (self.path, self.training)

        @torch.jit.export
        def __setstate__(self, state: tuple[str, bool]) -> None:
            self.path = state[0]
            self.training = state[1]
            torch.ops.aten.save([1], state[0])

    out = io.BytesIO()
    torch.jit.save(torch.jit.script(Evil(os.fspath(stolen))), out)
    torch.jit.load(io.BytesIO(out.getvalue()))
    assert stolen.exists()
    with pytest.raises(ModelError, match="they use aten::save"):
        require_known_operators(out.getvalue())
