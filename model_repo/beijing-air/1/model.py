"""Triton's python backend for a GLAIM model: loads the `model.pt` beside this file and answers batches of windows.

Triton hands over all requests that its dynamic batcher put together. They are stacked into one torch batch, because
one forward pass of 16 windows is several times cheaper than 16 of one, and the answer is cut apart again. A request
that cannot be used gets an error of its own; the others do not notice.

Where the environment names a folder in `GLAIM_KERNEL` that holds the network in C++ (`kernel.py`, `kernel.cpp` and the
library of this machine), that one answers, once it has given the answers of `model.pt` to a set of windows.

Runs with numpy 1.26 or 2 and with nothing of this project installed.
"""

import ctypes
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton_python_backend_utils as pb_utils

VALUES, OBSERVED, IMPUTED = "VALUES", "OBSERVED", "IMPUTED"
PIECE = 16  # windows a forward pass: more fall out of a core's cache (measured: 1.1 ms a window at 8, 1.9 at 256)


class TritonPythonModel:
    """What the python backend looks for."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the model; called once for each instance."""
        config = json.loads(args["model_config"])
        inputs = {item["name"]: [int(size) for size in item["dims"]] for item in config["input"]}
        self.window_shape = tuple(inputs[VALUES])
        self.largest_batch = int(config["max_batch_size"])
        # Several instances, or other work on the machine, share the cores: one thread each and no oversubscription.
        torch.set_num_threads(1)
        if sys.platform == "linux":  # keep freed memory; tensors of a few MB otherwise fault in anew at every operation
            libc = ctypes.CDLL(None)
            if hasattr(libc, "mallopt"):
                libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
                libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD
        path = Path(__file__).resolve().with_name("model.pt")
        self.model = torch.jit.load(str(path), map_location="cpu").eval()
        self.fill = self.torchscript
        self.take_kernel(self.prove(path.parents[1] / "warmup"))

    def prove(self, warmup: Path) -> list[tuple[Any, Any]]:
        """Run the warm-up window and return it, if there is one; an error means that this version is not loaded.

        Triton 2.51 ends by a segmentation fault where its own warm-up fails, at once or after some polls, and again at
        each start. A version that fails here never gets that far, and the other models are served.
        """
        if not all((warmup / name.lower()).exists() for name in (VALUES, OBSERVED)):
            return []
        values = np.frombuffer((warmup / VALUES.lower()).read_bytes(), "<f4").reshape(1, *self.window_shape)
        observed = np.frombuffer((warmup / OBSERVED.lower()).read_bytes(), np.bool_).reshape(1, *self.window_shape)
        for size in (1, PIECE):
            self.torchscript(values.repeat(size, axis=0), observed.repeat(size, axis=0))
        return [(values.copy(), observed.copy())]  # writable, as torch expects

    def take_kernel(self, windows: list[tuple[Any, Any]]) -> None:
        """Have the kernel answer where there is one that agrees with the model; the log says which one does."""
        folder = os.environ.get("GLAIM_KERNEL")
        if not folder:
            return
        named = f"{Path(__file__).resolve().parents[1].name} version {Path(__file__).resolve().parent.name}"
        try:
            spec = importlib.util.spec_from_file_location("glaim_kernel", Path(folder) / "kernel.py")
            if spec is None or spec.loader is None:
                raise ImportError(f"no module kernel.py in {folder}")
            loader = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loader)
            self.fill = loader.fast(self.model, self.torchscript, Path(folder), windows)
        except Exception as error:  # whatever is wrong with it, model.pt answers
            print(f"model {named}: TorchScript answers, not the kernel: {error}", file=sys.stderr, flush=True)
            return
        print(f"model {named}: the kernel answers", file=sys.stderr, flush=True)

    def torchscript(self, values: Any, observed: Any) -> Any:
        """Ask the model."""
        with torch.inference_mode():
            pieces = zip(*(torch.from_numpy(each).split(PIECE) for each in (values, observed)), strict=True)
            return torch.cat([self.model(*piece) for piece in pieces]).numpy()

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response for each request, in their order."""
        responses: list[Any] = [None] * len(requests)
        taken: list[int] = []
        values, observed = [], []
        for index, request in enumerate(requests):
            try:
                window_values, window_observed = self.read(request)
            except ValueError as error:
                responses[index] = pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
                continue
            taken.append(index)
            values.append(window_values)
            observed.append(window_observed)
        if taken:
            self.answer(taken, values, observed, responses)
        return responses

    def read(self, request: Any) -> tuple[Any, Any]:
        """The two arrays of a request, [b, C, T] each; ValueError says what is wrong with them."""
        values = pb_utils.get_input_tensor_by_name(request, VALUES)
        observed = pb_utils.get_input_tensor_by_name(request, OBSERVED)
        if values is None or observed is None:
            raise ValueError(f"expected inputs {VALUES} and {OBSERVED}")
        values, observed = values.as_numpy(), observed.as_numpy()
        for name, array in ((VALUES, values), (OBSERVED, observed)):
            if array.ndim != 3 or array.shape[1:] != self.window_shape:
                raise ValueError(
                    "expected {} of shape [batch, {}, {}], found {}".format(name, *self.window_shape, list(array.shape))
                )
        if len(values) != len(observed):
            raise ValueError(f"{VALUES} has batch {len(values)}, {OBSERVED} has {len(observed)}")
        # Copies: the arrays lie in memory that Triton takes back.
        return values.astype(np.float32), observed.astype(np.bool_)

    def answer(self, taken: list[int], values: list[Any], observed: list[Any], responses: list[Any]) -> None:
        """Fill in the responses of the requests `taken`."""
        sizes = [len(window) for window in values]
        try:
            filled = self.fill(np.concatenate(values), np.concatenate(observed))
        except RuntimeError as error:
            for index in taken:
                responses[index] = pb_utils.InferenceResponse(
                    error=pb_utils.TritonError("the model failed: " + str(error))
                )
            return
        start = 0
        for index, size in zip(taken, sizes, strict=True):
            part = np.ascontiguousarray(filled[start : start + size])
            responses[index] = pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor(IMPUTED, part)])
            start += size
