"""The local imputer, which runs the same TorchScript in the worker, without Triton."""

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glaim_stream.build import create_ladder
from glaim_stream.core.contract import file_digest, read_contract, write_contract
from glaim_stream.core.errors import ContractError, ImputerAbsent, ImputerError, ModelError
from glaim_stream.core.settings import Settings
from glaim_stream.imputers.ladder import Ladder
from glaim_stream.imputers.local import VERSION_CHECK_INTERVAL_S, LocalImputer
from glaim_stream.imputers.protocol import Windows
from glaim_stream.imputers.simple import LastValue
from glaim_stream.models import Contracts, open_store, rollback, seal
from glaim_stream.output import Method
from tests.models.signing import Signer
from tests.support import contract, torchscript


def put(repository: Path, version: int, *, add: float = 0.0, **more: Any) -> None:
    """Write a version that imputes each sensor's observed mean plus `add`."""
    torch = pytest.importorskip("torch", reason="the extra `local` is not installed")
    folder = repository / "m" / str(version)
    folder.mkdir(parents=True)

    def forward(values: Any, observed: Any) -> Any:
        mask = observed.to(values.dtype)
        return add + ((values * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).unsqueeze(-1).repeat(1, 1, 3)

    network = torch.jit.trace(forward, (torch.zeros(1, 2, 6), torch.ones(1, 2, 6, dtype=torch.bool)))
    network.save(str(folder / "model.pt"))
    written = contract(version=version, torchscript_sha256=file_digest(folder / "model.pt"), **more)
    write_contract(written, folder)
    write_contract(written, repository / "m")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with version 1 of the model m."""
    put(tmp_path, 1)
    return tmp_path


async def test_the_newest_steps_are_imputed_and_marked_with_the_version(repository: Path) -> None:
    imputer = LocalImputer(repository, {"m": read_contract(repository / "m")})
    values = np.arange(24, dtype=np.float32).reshape(2, 2, 6)
    observed = np.ones(values.shape, np.bool_)
    observed[1, 1] = False
    answer = await imputer.impute(Windows("m", values, observed, 2))
    assert answer.values.shape == (2, 2, 2)
    assert answer.values[:, :, 0].tolist() == [[2.5, 8.5], [14.5, 0.0]]
    assert (answer.method == Method.MODEL).all()
    assert answer.version == ["1", "1"]
    await imputer.close()


async def test_a_model_that_was_not_loaded_is_rejected(repository: Path) -> None:
    windows = Windows("other", np.zeros((1, 2, 6), np.float32), np.zeros((1, 2, 6), np.bool_), 1)
    with pytest.raises(ImputerError, match=r"no local model other, loaded are \['m'\]"):
        await LocalImputer(repository, {"m": read_contract(repository / "m")}).impute(windows)


def test_weights_that_do_not_match_the_contract_are_not_loaded(repository: Path) -> None:
    weights = repository / "m" / "1" / "model.pt"
    weights.write_bytes(weights.read_bytes() + b"\0")
    with pytest.raises(ContractError, match=r"model\.pt of model m version 1"):
        LocalImputer(repository, {"m": read_contract(repository / "m")})


def sealed(repository: Path) -> None:
    (repository / "m" / "1" / "model.py").write_text("code = 1")
    (repository / "m" / "config.pbtxt").write_text("config")
    seal(repository / "m", 1)


def answers_one(repository: Path, **options: Any) -> LocalImputer:
    return LocalImputer(repository, {"m": read_contract(repository / "m")}, **options)


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        ("m/1/other.py", "code = 2", "its manifest does not list '1/other.py'"),
        ("m/model.py", "code = 2", "its manifest does not list 'model.py'"),
        ("m/1/model.py", "code = 2", r"1/model\.py has sha256"),
        ("m/config.pbtxt", "confug", r"config\.pbtxt has sha256"),
    ],
)
def test_a_version_that_differs_from_its_manifest_is_not_loaded(
    path: str, content: str, reason: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    sealed(repository)
    answers_one(repository)
    (repository / path).write_text(content)
    monkeypatch.delattr(torch.jit, "load")
    with pytest.raises(ModelError, match=f"m version 1 is refused: {reason}"):
        answers_one(repository)


@pytest.mark.parametrize("with_manifest", [True, False])
async def test_weights_that_are_swapped_after_their_check_are_not_what_is_loaded(
    with_manifest: bool, repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    other = tmp_path_factory.mktemp("other")
    put(other, 1, add=1000.0)
    if with_manifest:
        sealed(repository)
    load = torch.jit.load

    def swap_and_load(*arguments: Any, **options: Any) -> Any:
        (other / "m" / "1" / "model.pt").replace(repository / "m" / "1" / "model.pt")
        return load(*arguments, **options)

    monkeypatch.setattr(torch.jit, "load", swap_and_load)
    imputer = answers_one(repository)
    answer = await imputer.impute(Windows("m", np.ones((1, 2, 6), np.float32), np.ones((1, 2, 6), np.bool_), 1))
    assert (answer.values == 1.0).all()


def test_the_contract_of_another_model_loads_nothing(repository: Path) -> None:
    """A name in a contract is part of a path: it must not lead to another folder."""
    (repository / "n").mkdir()
    (repository / "n" / "contract.json").write_bytes((repository / "m" / "contract.json").read_bytes())
    with pytest.raises(ContractError, match="expected the contract of model n, found that of m"):
        LocalImputer(repository, {"n": read_contract(repository / "n")})


def test_a_contract_beside_the_version_must_be_that_of_the_version(repository: Path) -> None:
    sealed(repository)
    changed = read_contract(repository / "m").model_copy(update={"git_commit": "other"})
    write_contract(changed, repository / "m")
    with pytest.raises(ContractError, match="the contract of model m differs from that of its version 1"):
        answers_one(repository)


def test_a_version_without_a_manifest_is_loaded_unless_a_key_must_have_signed_it(
    repository: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers_one(repository)
    assert "m version 1 has no manifest" in caplog.text
    with pytest.raises(ModelError, match="m version 1 is refused: it has no manifest"):
        create_ladder(
            Settings(imputer="local", model_repository=repository, manifest_key=Signer().public),
            {"m": read_contract(repository / "m")},
        )


def test_an_operator_that_does_not_compute_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    folder = tmp_path / "m" / "1"
    folder.mkdir(parents=True)
    (folder / "model.pt").write_bytes(torchscript("    torch.warn('read me')\n    return VALUES\n"))
    write_contract(contract(torchscript_sha256=file_digest(folder / "model.pt")), tmp_path / "m")
    monkeypatch.delattr(torch.jit, "load")
    with pytest.raises(ModelError, match="the weights are not loaded: they use aten::warn"):
        answers_one(tmp_path)


def test_without_torch_the_error_states_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    original = builtins.__import__

    def without_torch(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name == "torch":
            raise ImportError(name)
        return original(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    with pytest.raises(ImputerError, match=r"install glaim-stream\[local\]"):
        LocalImputer(tmp_path, {})


def put_broken(repository: Path, forward: Any) -> None:
    """Write version 1 of the model m with the network `forward`."""
    torch = pytest.importorskip("torch", reason="the extra `local` is not installed")
    folder = repository / "m" / "1"
    folder.mkdir(parents=True)
    network = torch.jit.trace(forward, (torch.zeros(1, 2, 6), torch.ones(1, 2, 6, dtype=torch.bool)))
    network.save(str(folder / "model.pt"))
    write_contract(contract(torchscript_sha256=file_digest(folder / "model.pt")), repository / "m")


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda values, observed: values[..., -2:] * observed[..., -2:], r"shape \(2, 2, 3\), found \(2, 2, 2\)"),
        (lambda values, observed: values[..., -3:] / (values * ~observed)[..., -3:], "not finite"),
        (
            lambda values, observed: (values * observed).view(1, 12)[:, :6],
            "^model m version 1 failed: RuntimeError: .* invalid for input",
        ),
        (lambda values, observed: (values * observed, values), "^model m version 1 failed: .*no attribute 'numpy'$"),
    ],
)
async def test_a_network_that_fails_or_returns_invalid_values_is_an_imputer_error(
    tmp_path: Path, forward: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    put_broken(tmp_path, forward)
    windows = Windows("m", np.ones((2, 2, 6), np.float32), np.ones((2, 2, 6), np.bool_), 2)
    imputer = LocalImputer(tmp_path, {"m": read_contract(tmp_path / "m")})
    with pytest.raises(ImputerError, match=message):
        await imputer.impute(windows)
    answer = await Ladder([imputer, LastValue()]).impute(windows)
    assert (answer.method == Method.LAST_VALUE).all()
    assert "local failed to impute 2 windows of model m" in caplog.text


ONES = Windows("m", np.ones((1, 2, 6), np.float32), np.ones((1, 2, 6), np.bool_), 1)


class FollowedRepository:
    """A local imputer whose clock advances before each call."""

    def __init__(self, repository: Path) -> None:
        self.now_s = 0.0
        self.contracts = Contracts({"m": read_contract(repository / "m")}, repository)
        self.imputer = LocalImputer(repository, self.contracts, now_s=lambda: self.now_s)

    async def answer(self, after_s: float = VERSION_CHECK_INTERVAL_S) -> tuple[str, float]:
        self.now_s += after_s
        found = await self.imputer.impute(ONES)
        return found.version[0], float(found.values[0, 0, 0])


async def test_a_new_version_is_loaded_and_a_withdrawn_one_is_dropped(repository: Path) -> None:
    followed = FollowedRepository(repository)
    put(repository, 2, add=1.0)
    assert await followed.answer(after_s=VERSION_CHECK_INTERVAL_S / 2) == ("1", 1.0)
    assert await followed.answer() == ("2", 2.0)
    found = followed.contracts.of("m", "2")
    assert found is not None, "its contract, and so its intervals, are known"
    assert found.version == 2
    rollback(open_store(str(repository)), "m", say=lambda line: None)
    assert await followed.answer() == ("1", 1.0)
    rollback(open_store(str(repository)), "m", 0, say=lambda line: None)
    with pytest.raises(ImputerAbsent, match="all versions of m were withdrawn"):
        await followed.answer()
    rollback(open_store(str(repository)), "m", 2, say=lambda line: None)
    assert await followed.answer() == ("2", 2.0)


async def test_an_unusable_version_is_logged_once_and_the_previous_one_stays(
    repository: Path, caplog: pytest.LogCaptureFixture
) -> None:
    followed = FollowedRepository(repository)
    put(repository, 2)
    weights = repository / "m" / "2" / "model.pt"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    assert [await followed.answer() for _ in range(3)] == [("1", 1.0)] * 3
    assert [record.message[:23] for record in caplog.records if record.name == "glaim_stream.imputers.local"] == [
        "model m keeps version 1"
    ]
    assert "model.pt of model m version 2" in caplog.text
    weights.write_bytes(whole)
    assert (await followed.answer())[0] == "2"
    put(repository, 3, window=7)
    assert (await followed.answer())[0] == "2"
    assert "expected window 6, found 7" in caplog.text
    (repository / "m" / "contract.json").write_text("{")
    assert (await followed.answer())[0] == "2"


async def test_a_version_that_fails_its_check_leaves_the_previous_one(
    repository: Path, caplog: pytest.LogCaptureFixture
) -> None:
    followed = FollowedRepository(repository)
    put(repository, 2, add=1.0)
    seal(repository / "m", 2)
    extra = repository / "m" / "2" / "model.py"
    extra.write_text("code = 2")
    assert (await followed.answer())[0] == "1"
    assert "model m keeps version 1: " in caplog.text
    assert "m version 2 is refused: its manifest does not list '2/model.py'" in caplog.text
    extra.unlink()
    assert (await followed.answer())[0] == "2"
