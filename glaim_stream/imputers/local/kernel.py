"""The network over its own closed form in C++: several times the speed of TorchScript on a CPU, the same answers.

`kernel.cpp` is compiled for the machine, its weights come from the TorchScript file, and it answers only where it
agrees with that file on a set of difficult windows. A library that would end its process, such as a damaged one, ends a
child process instead.

Triton's python backend loads this file from the folder that `GLAIM_KERNEL` names (`install`), so it imports numpy and
the standard library alone.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["fast", "install"]

TOLERANCE = 1e-5  # deviations of a sensor
SOURCE = Path(__file__).with_name("kernel.cpp")
_OPTIONS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", "-fno-math-errno", "-fno-trapping-math")
_COMPILE_S, _TRY_S = 120, 60
_LANES = 16  # floats of the widest vector; sizes of features are multiples of it
_TAPS = 7  # zeros at both ends of a convolution's kernel, as in kernel.cpp
_PROVEN_WINDOWS = 40

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]
Weights = Mapping[str, Doubles]


class UnfitError(Exception):
    """The reason why TorchScript answers instead."""


def install(folder: Path) -> Path:
    """Make a folder for `GLAIM_KERNEL` below another one: a copy of this file, the source, and the library.

    Raises:
        UnfitError: there is no compiler, it failed, or the folder cannot be written.
    """
    files = {path.name: path.read_bytes() for path in (Path(__file__), SOURCE)}
    made = folder / f"kernel-{hashlib.sha256(b''.join(files.values())).hexdigest()[:16]}"
    try:
        made.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (made / name).write_bytes(content)
    except OSError as error:
        raise UnfitError(f"the kernel cannot be installed: {error}") from error
    _built(made)
    return made


def fast(
    network: Any, answer: Callable[[Floats, Bools], Floats], folder: Path, more: Sequence[tuple[Floats, Bools]] = ()
) -> Kernel:
    """Return the network in C++, once its answers have been compared.

    Args:
        network: the TorchScript module.
        answer: asks the module.
        folder: holds the library, or takes it: it is compiled for this machine unless it is there.
        more: windows to compare beside the usual ones, (VALUES, OBSERVED) of [n, C, T] each.

    Raises:
        UnfitError: the network is of another kind, the library cannot be made or does not run here, or its answers
            differ.
    """
    packed = _packed(network)
    library = _built(folder)
    _require_running(library)
    reason = ""
    for beyond in (
        1.0,
        0.0,
    ):  # files exported until 2026-11-29 keep the level of a silent sensor within those of training
        kernel = Kernel(library, *packed, beyond)
        windows = [_hard_windows(kernel), *more]
        reason = next(filter(None, (_difference(kernel, answer, *each) for each in windows)), "")
        if not reason:
            return kernel
    raise UnfitError(reason)


def _built(folder: Path) -> Path:
    """Return the library of this machine in a folder; it is compiled unless it is there."""
    library = folder / f"kernel-{_machine()}.so"
    if library.is_file():
        return library
    compiler = next(filter(None, map(shutil.which, ("g++", "clang++", "c++"))), None)
    if compiler is None:
        raise UnfitError(f"expected {library} or a compiler, found neither g++ nor clang++")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as private:
            made = Path(private) / library.name
            command = [compiler, *_OPTIONS, "-o", str(made), str(SOURCE)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
            if done.returncode:
                raise UnfitError(f"{compiler} failed: {(done.stderr.strip().splitlines() or ['no message'])[0]}")
            made.replace(library)  # several processes may do this at once
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnfitError(f"the kernel cannot be compiled: {error}") from error
    return library


def _difference(kernel: Kernel, answer: Callable[[Floats, Bools], Floats], values: Floats, observed: Bools) -> str:
    """Say how the answers to windows differ; empty if they agree."""
    wanted, found = answer(values, observed), kernel(values, observed)
    newest = (observed & np.isfinite(values))[:, :, -found.shape[2] :]
    if wanted.shape != found.shape or not np.array_equal(found[newest], wanted[newest]):
        return "its answers change observed cells"
    rounding = 2 * np.spacing(np.abs(wanted))  # a level of 1,000 deviations has no more digits
    away = float(((np.abs(found - wanted) - rounding) / kernel.std[:, None]).max(initial=0.0))
    return "" if away <= TOLERANCE else f"its answers differ by {away:.1e} deviations, at most {TOLERANCE} allowed"


class Kernel:
    """A network in C++. Any number of threads may call it at once; it holds no lock of the interpreter."""

    def __init__(
        self, library: Path, sizes: Sequence[int], floats: Floats, doubles: Doubles, beyond: float = 1.0
    ) -> None:
        """Load the library and give it the weights (`_packed`).

        Args:
            library: path of the library.
            sizes: int32 numbers of kernel.cpp.
            floats: weights.
            doubles: what is float64; the range of levels last.
            beyond: how far the level of a silent sensor may lie beyond that range, in its widths.

        Raises:
            UnfitError: the library cannot be loaded.
        """
        self.sensors, self.window, self.emitted = sizes[0], sizes[1], sizes[-1]
        room = -(-self.sensors // _LANES) * _LANES  # after the scalars, which take one vector
        self.mean, self.std = floats[_LANES : _LANES + 2 * room].reshape(2, room)[:, : self.sensors]
        low, high = doubles[-2 * self.sensors :].reshape(2, -1)
        span = high - low
        ranges = np.concatenate([low - span, high + span, low - beyond * span, high + beyond * span])
        doubles = np.concatenate([doubles[: -2 * self.sensors], ranges])
        try:
            self._library = ctypes.CDLL(str(library))
            opened, self._fill, self._close = (getattr(self._library, f"glaim_{n}") for n in ("open", "fill", "close"))
        except (OSError, AttributeError) as error:
            raise UnfitError(f"{library} cannot be loaded: {error}") from error
        opened.restype = ctypes.c_void_p
        opened.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64]
        self._fill.argtypes = [*[ctypes.c_void_p] * 4, ctypes.c_int64]
        self._close.argtypes = [ctypes.c_void_p]
        given = np.array(sizes, np.int32)
        self._network = opened(given.ctypes.data, floats.ctypes.data, floats.size, doubles.ctypes.data, doubles.size)
        if not self._network:
            raise UnfitError(f"{library} expects other weights")

    def __call__(self, values: Floats, observed: Bools) -> Floats:
        """Fill windows.

        Args:
            values: [B, C, T], sensor units.
            observed: [B, C, T].

        Returns:
            [B, C, emitted].

        Raises:
            RuntimeError: windows of another shape, or memory is lacking.
        """
        shape = (len(values), self.sensors, self.window)
        if values.shape != shape or observed.shape != shape:
            raise RuntimeError(f"expected windows of shape {shape}, found {values.shape} and {observed.shape}")
        values, observed = np.ascontiguousarray(values, np.float32), np.ascontiguousarray(observed, np.bool_)
        out = np.empty((len(values), self.sensors, self.emitted), np.float32)
        if self._fill(self._network, values.ctypes.data, observed.ctypes.data, out.ctypes.data, len(values)):
            raise RuntimeError("memory is lacking")
        return out

    def __del__(self) -> None:
        """Free the weights."""
        if getattr(self, "_network", None):
            self._close(self._network)


def _machine() -> str:
    """A digest of the source, the options and the processor's abilities."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        abilities = [line for line in lines if line.partition(":")[0].strip() in ("flags", "Features", "model name")]
    except OSError:
        abilities = [platform.processor(), platform.machine()]
    content = "\n".join([*_OPTIONS, *abilities]).encode() + SOURCE.read_bytes()
    return hashlib.sha256(content).hexdigest()[:16]


def _require_running(library: Path) -> None:
    """Run a made-up network in a child process."""
    name = Path(sys.executable or "").name
    python = sys.executable if name.startswith("python") else shutil.which("python3")
    if python is None:
        raise UnfitError("expected an interpreter to try the library in, found none")
    code = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).glaim_try())"
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", code, str(library)], capture_output=True, text=True, timeout=_TRY_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnfitError(f"{library} cannot be tried: {error}") from error
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UnfitError(f"{library} does not run here, exit code {done.returncode}: {reason}")


def _hard_windows(kernel: Kernel) -> tuple[Floats, Bools]:
    """Windows of walks: from full to empty, with a silent sensor, half of the window, a constant row, one row moved."""
    rng = np.random.default_rng(0)
    shape = (_PROVEN_WINDOWS, kernel.sensors, kernel.window)
    walk = rng.standard_normal(shape).cumsum(axis=2) / math.sqrt(kernel.window)
    values = (walk * kernel.std[:, None] + kernel.mean[:, None]).astype(np.float32)
    observed = rng.random(shape) > rng.uniform(0.02, 0.7, (shape[0], 1, 1))
    half = kernel.window // 2
    observed[0], observed[1] = False, True
    observed[2, :, :half] = False
    observed[3, :, half:] = False
    observed[4, :, :-8] = False
    observed[5, 0] = observed[6, -1] = observed[7, ::2] = False
    observed[8:12, :, -1] = False
    observed[12] = False
    observed[12, 0, half] = True
    values[13] = values[13, :, :1]
    observed[14:16, :, -1] = True
    values[14:16] -= values[14:16, :, -1:]  # as the worker centres rows
    observed[15, 0] = False
    values[16][~observed[16]] = np.nan
    values[17, :, ::9] = np.nan
    for row in range(18, 32):  # levels near the ends of those of training, and beyond, of which silent sensors follow
        values[row] = kernel.mean[:, None] + (row % 7 - 3) * kernel.std[:, None] * (1 + 0.1 * walk[row])
        observed[row, row % kernel.sensors] = False
    return values, observed


def _packed(network: Any) -> tuple[list[int], Floats, Doubles]:
    """Return sizes, weights, and what is float64, as kernel.cpp reads them.

    Raises:
        UnfitError: the module is no network over its own closed form, or has sizes that kernel.cpp does not compute.
    """
    try:
        weights = {name: each.detach().cpu().double().numpy() for name, each in network.state_dict().items()}
        model = network.model
        prior = model.priemb.priemb
        first = getattr(model.layers, "0")
        layers = len(list(model.layers.children()))
        heads = int(first.sacoref.pool.heads)
        scalars = [float(model.normalise.eps), float(prior.temperature), float(first.staglo.norm_conv.eps)]
        widths = prior.widths.double().numpy().reshape(-1)
        pieces = _pieces(weights, widths, scalars, layers, heads)
        form = [np.linalg.inv(weights["model.form.precision"])]
        form += [weights[f"model.form.{name}"] for name in ("unit", "level_covariance", "level_zero", "level_range")]
        (window, d), sensors = weights["model.layers.0.sacoref.position"].shape, len(weights["model.share"])
        taps, ffn = weights["model.layers.0.staglo.large"].shape[2], len(weights["model.layers.0.staglo.ffn_in.weight"])
        sizes = [
            sensors, window, d, layers, ffn, heads, taps, pieces[-1].size, widths.size, pieces[6].size,
            int(network.emitted_steps),
        ]  # fmt: skip
        padded = [np.pad(piece.astype(np.float32).ravel(), (0, -piece.size % _LANES)) for piece in pieces]
        floats = np.concatenate(padded)
    except (KeyError, AttributeError, ValueError) as error:
        raise UnfitError(f"the network is no GLAIM over its own closed form: {str(error).splitlines()[0]}") from error
    if d % _LANES or ffn % _LANES:
        raise UnfitError(f"expected features in multiples of {_LANES}, found {d}, in the feed-forward {ffn}")
    return sizes, floats, np.concatenate([each.ravel() for each in (weights["model.form.precision"], *form)])


def _pieces(weights: Weights, widths: Doubles, scalars: list[float], layers: int, heads: int) -> list[Doubles]:
    """The arrays of kernel.cpp in its order; what does not depend on the window is folded."""
    choice, correction = (_head(weights, f"model.gaterecon.{name}") for name in ("choice", "correction"))
    router = weights["model.priemb.priemb.router_temporal.weight"]  # (hidden, channels, 1, 3)
    more = -len(router) % _LANES
    pointwise = weights["model.priemb.priemb.router_pointwise.weight"][:, :, 0, 0]
    made = [
        np.array([*scalars, choice.pop().item(), correction.pop().item()]),
        weights["mean"], weights["std"], weights["model.share"], widths,
        np.pad(router[:, :, 0].transpose(2, 1, 0), ((0, 0), (0, 0), (0, more))),
        np.pad(weights["model.priemb.priemb.router_temporal.bias"], (0, more)),
        np.pad(pointwise, ((0, 0), (0, more))), weights["model.priemb.priemb.router_pointwise.bias"],
        weights["model.priemb.priemb.embedding.weight"].T, weights["model.priemb.embedding.weight"],
    ]  # fmt: skip
    for index in range(layers):
        name = f"model.layers.{index}"
        made += _global(weights, f"{name}.staglo") + _refinement(weights, f"{name}.sacoref", heads)
    return [*made, *choice, *correction]


def _global(weights: Weights, name: str) -> list[Doubles]:
    """StaGlo: the norm's gain in the kernel, its shift as a value for each step, the matrices of the sensors."""
    of = {key.removeprefix(f"{name}."): each for key, each in weights.items() if key.startswith(f"{name}.")}
    large, small = of["large"][:, 0, :, 0], of["small"][:, 0, :, 0]
    widen = (large.shape[1] - small.shape[1]) // 2
    kernel = (large + np.pad(small, ((0, 0), (widen, widen)))).T  # (taps, D)
    position = weights[name.replace("staglo", "sacoref") + ".position"]
    steps, pad = len(position), len(kernel) // 2
    sums = np.concatenate([np.zeros((1, kernel.shape[1])), kernel.cumsum(axis=0)])
    at = np.arange(steps)
    inside = sums[np.minimum(steps - at + pad, len(kernel))] - sums[np.maximum(pad - at, 0)]
    tokens = _gelu(_linear(weights, f"{name}.generate_hidden", weights["model.tokens"]))
    factors = _linear(weights, f"{name}.generate", tokens)
    sensors = len(weights["model.share"])
    left, right = factors.reshape(len(factors), 2, sensors, -1).swapaxes(0, 1)
    scores = left @ right.swapaxes(1, 2) / math.sqrt(left.shape[2])
    shares = np.exp(scores - scores.max(axis=2, keepdims=True))
    alpha = 1 / (1 + np.exp(-of["alpha_logit"]))[:, None, None]
    mixing = (1 - alpha) * np.eye(sensors) + alpha * shares / shares.sum(axis=2, keepdims=True)
    gain, shift = of["norm_ffn.weight"], of["norm_ffn.bias"]
    return [
        inside * of["norm_conv.bias"], np.pad(kernel * of["norm_conv.weight"], ((_TAPS, _TAPS), (0, 0))),
        of["ffn_in.weight"].T * gain[:, None], of["ffn_in.bias"] + of["ffn_in.weight"] @ shift,
        of["ffn_out.weight"].T, of["ffn_out.bias"], mixing.transpose(1, 2, 0),
    ]  # fmt: skip


def _refinement(weights: Weights, name: str, heads: int) -> list[Doubles]:
    """SaCoRef: the two values of the mask, the query and the projections of the pool folded into matrices."""
    of = {key.removeprefix(f"{name}."): each for key, each in weights.items() if key.startswith(f"{name}.")}
    d = of["position"].shape[1]
    size = d // heads
    mask = np.array([[0.0], [1.0]])
    both = _linear(weights, f"{name}.mask_out", _gelu(_linear(weights, f"{name}.mask_hidden", mask)))
    query_w, key_w, value_w = of["pool.project.weight"].reshape(3, d, d)
    query_b, _, value_b = of["pool.project.bias"].reshape(3, d)
    query = (query_w @ of["pool.query"][0] + query_b).reshape(heads, size)
    scores = np.einsum("he,hed->hd", query, key_w.reshape(heads, size, d)) / math.sqrt(size)
    out = of["pool.out.weight"]
    pool = np.einsum("hed,jhe->hdj", value_w.reshape(heads, size, d), out.reshape(d, heads, size))
    identity = of["identity"] + out @ value_b + of["pool.out.bias"]
    change, scale, shift = of["modulation_hidden.weight"], *np.split(of["modulation.weight"], 2)
    scale_b, shift_b = np.split(of["modulation.bias"], 2)
    gate_u, gate_c = np.split(of["gate_hidden.weight"], 2, axis=1)
    return [
        both[:, None] + of["position"], scores, pool, identity, *_encoder(of, "relation_encoder", size), change.T,
        of["modulation_hidden.bias"], scale.T, scale_b, shift.T, shift_b, of["linear_in.weight"].T,
        of["linear_out.weight"].T, np.zeros(d), *_encoder(of, "variable_refiner", size), gate_u.T, gate_c.T,
        of["gate_hidden.bias"], of["gate_out.weight"].T, of["gate_out.bias"],
    ]  # fmt: skip


def _encoder(of: Weights, name: str, size: int) -> list[Doubles]:
    """EncoderLayer: the queries divided by the root of a head's size."""
    scale = np.repeat([1 / math.sqrt(size), 1.0, 1.0], len(of[f"{name}.project.bias"]) // 3)
    return [
        of[f"{name}.project.weight"].T * scale, of[f"{name}.project.bias"] * scale, of[f"{name}.out.weight"].T,
        of[f"{name}.out.bias"], of[f"{name}.norm_attention.weight"], of[f"{name}.norm_attention.bias"],
        of[f"{name}.ffn_in.weight"].T, of[f"{name}.ffn_in.bias"], of[f"{name}.ffn_out.weight"].T,
        of[f"{name}.ffn_out.bias"], of[f"{name}.norm_ffn.weight"], of[f"{name}.norm_ffn.bias"],
    ]  # fmt: skip


def _head(weights: Weights, name: str) -> list[Doubles]:
    """GateRecon: values, gates and output, padded to whole vectors; the output's bias last."""
    matrix = weights[f"{name}.features.weight"]
    bias = weights[f"{name}.features.bias"] + matrix @ weights[f"{name}.norm.bias"]
    matrix = matrix * weights[f"{name}.norm.weight"]
    out = weights[f"{name}.out.weight"][0]
    more = -out.size % _LANES
    made = []
    for half, half_b in zip(np.split(matrix, 2), np.split(bias, 2), strict=True):
        made += [np.pad(half.T, ((0, 0), (0, more))), np.pad(half_b, (0, more))]
    return [*made, np.pad(out, (0, more)), weights[f"{name}.out.bias"]]


def _linear(weights: Weights, name: str, given: Doubles) -> Doubles:
    made: Doubles = given @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
    return made


def _gelu(given: Doubles) -> Doubles:
    made: Doubles = given * (1 + np.vectorize(math.erf)(given / math.sqrt(2))) / 2
    return made
