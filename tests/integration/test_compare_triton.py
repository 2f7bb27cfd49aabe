"""A real Triton gives the values of the same models in this process, and the comparison notices when it does not."""

import shutil
from pathlib import Path

import pytest

from deploy import compare_triton
from deploy.cache import CHECKOUT
from deploy.ports import LOOPBACK, choose_port
from deploy.triton import ExternalTriton, LocalTriton


def test_a_real_triton_answers_as_torch_does(
    triton: LocalTriton | ExternalTriton, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare_triton.main(["--triton", triton.grpc_url]) == 0
    assert capsys.readouterr().out.count("standard deviations, 0.01 allowed") == 2


@pytest.mark.slow  # quicker: with a stand-in for Triton, in tests/training/test_triton_backend.py
@pytest.mark.parametrize("found", [True, False])
def test_the_log_of_a_real_triton_says_whether_the_kernel_answers(found: bool, tmp_path: Path) -> None:
    given = {} if found else {"GLAIM_KERNEL": str(tmp_path)}
    with LocalTriton(CHECKOUT / "model_repo", models=["plant-pump"], environment=given) as server:
        arguments = ["--triton", server.grpc_url, "--model", "plant-pump"]
        assert compare_triton.main(arguments) == 0
        said = "the kernel answers" if found else "TorchScript answers, not the kernel: "
        assert f"model plant-pump version 1: {said}" in server.log.read_text()


@pytest.mark.slow  # quicker: the comparison with torch, above
def test_other_weights_are_noticed(
    triton: LocalTriton | ExternalTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The same contract with other weights in this process."""
    import io

    import torch

    from glaim_stream.imputers.local import LocalImputer

    shutil.copytree(CHECKOUT / "model_repo" / "plant-pump", tmp_path / "plant-pump")
    model = torch.jit.load(str(tmp_path / "plant-pump" / "1" / "model.pt"))
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(1.2)
    changed = io.BytesIO()
    torch.jit.save(model, changed)
    monkeypatch.setattr(LocalImputer, "_checked_weights", lambda *_: changed.getvalue())
    arguments = ["--triton", triton.grpc_url, "--repository", str(tmp_path), "--model", "plant-pump"]
    assert compare_triton.main(arguments) == 1
    assert "plant-pump: differs by at most" in capsys.readouterr().out


def test_a_triton_that_is_not_there_is_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare_triton, "_DEADLINE_S", 1.0)
    assert compare_triton.main(["--triton", f"{LOOPBACK}:{choose_port()}"]) == 1
    assert capsys.readouterr().out.count("expected answers, found: ") == 2
