"""Triton's configurations of a model, three ways to serve the same `model.pt`, and its warm-up windows.

| file | backend | device | `--model-config-name` |
|---|---|---|---|
| `config.pbtxt` | libtorch | GPU | none: Triton's default |
| `configs/cpu.pbtxt` | libtorch | CPU | `cpu`: NVIDIA's image on a machine without a GPU |
| `configs/python.pbtxt` | python | CPU | `python`: a server without the libtorch backend |

All take the same tensors, so they look the same to a client.

On names: the libtorch backend matches inputs to the arguments of `forward`, which is why those are spelled VALUES and
OBSERVED. For outputs it knows `<name>__<index>` or, failing that, the order in the configuration. There is one output,
so the order cannot be wrong, and IMPUTED keeps the same name under every backend and in the contract.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.contract import IMPUTED, OBSERVED, VALUES
from training.config import ExportSpec
from training.data import Bools, Floats

WARM_BATCHES = (1, 8, 64)
WARMUP_FOLDER = "warmup"  # folder in which Triton looks for the files of `input_data_file`


def _tensors(sensors: int, window: int, emitted: int) -> str:
    return f"""input [
  {{
    name: "{VALUES}"        # sensor units, 0 where missing; whatever stands where nothing was observed is ignored
    data_type: TYPE_FP32
    dims: [ {sensors}, {window} ]
  }},
  {{
    name: "{OBSERVED}"      # true where a reading arrived
    data_type: TYPE_BOOL
    dims: [ {sensors}, {window} ]
  }}
]
output [
  {{
    name: "{IMPUTED}"       # the {emitted} newest steps, sensor units; observed cells pass through
    data_type: TYPE_FP32
    dims: [ {sensors}, {emitted} ]
  }}
]
"""


def _batching(export: ExportSpec) -> str:
    preferred = ", ".join(map(str, export.preferred_batches))
    return f"""# Windows of many groups travel in one call already; the batcher joins calls that come within the delay.
# There is no default_queue_policy: with a queue limit or timeout requests stall for half a second at a time.
# Deadlines are the client's.
dynamic_batching {{
  preferred_batch_size: [ {preferred} ]
  max_queue_delay_microseconds: {export.queue_delay_us}  # little beside a step, much beside the time between calls
}}
"""


def _warmup(sensors: int, window: int) -> str:
    entries = []
    for batch in WARM_BATCHES:
        inputs = "".join(
            f"""
    inputs {{
      key: "{name}"
      value: {{ data_type: {kind} dims: [ {sensors}, {window} ] input_data_file: "{name.lower()}" }}
    }}"""
            for name, kind in ((VALUES, "TYPE_FP32"), (OBSERVED, "TYPE_BOOL"))
        )
        entries.append(f"""  {{
    name: "batch-{batch}"
    batch_size: {batch}
    count: 3  # TorchScript measures on the first calls and settles after them{inputs}
  }}""")
    joined = ",\n".join(entries)
    return f"""# A model is ready only after these: the first calls of a TorchScript file take many times the usual.
# The window is one of the validation data with holes in it, so that every branch is taken.
model_warmup [
{joined}
]
"""


_LIBTORCH = """\
platform: "pytorch_libtorch"
default_model_filename: "model.pt"
"""


_LIBTORCH_EXECUTION = """\
# Batch sizes change from call to call. The optimising executor would specialise, and stall, for each of them anew.
parameters { key: "DISABLE_OPTIMIZED_EXECUTION" value { string_value: "true" } }
parameters { key: "INFERENCE_MODE" value { string_value: "true" } }

"""


def _config(
    name: str, sensors: int, window: int, export: ExportSpec, *, head: str, backend: str, instances: str, execution: str
) -> str:
    """Join the common parts of all configurations with those of one backend; each part ends in a newline."""
    return f"""{head}name: "{name}"
{backend}max_batch_size: {export.max_batch}

{_tensors(sensors, window, export.emitted_steps)}
{instances}
{_batching(export)}
{_version_policy(export)}

{execution}{_warmup(sensors, window)}"""


def libtorch_config(name: str, sensors: int, window: int, export: ExportSpec) -> str:
    """`config.pbtxt`: the pytorch_libtorch backend on a GPU."""
    return _config(
        name,
        sensors,
        window,
        export,
        head=f"""\
# Model {name} for Triton with the PyTorch backend on a GPU. Written by training.export.
# On a CPU: tritonserver --model-config-name=cpu takes configs/cpu.pbtxt instead, and --model-config-name=python takes
# configs/python.pbtxt, for a server without that backend.
""",
        backend=_LIBTORCH,
        instances="""\
# One instance a GPU: a second one would only queue behind the first on the same device.
instance_group [ { kind: KIND_GPU count: 1 } ]
""",
        execution=_LIBTORCH_EXECUTION,
    )


def libtorch_cpu_config(name: str, sensors: int, window: int, export: ExportSpec) -> str:
    """`configs/cpu.pbtxt`: the pytorch_libtorch backend on a CPU."""
    return _config(
        name,
        sensors,
        window,
        export,
        head=f"""\
# Model {name} for Triton with the PyTorch backend on a CPU. Written by training.export.
# Taken by: tritonserver --model-config-name=cpu
""",
        backend=_LIBTORCH,
        instances="""\
# An instance has one thread: set the count to the number of cores. libtorch would take as many threads as the machine
# has cores, whatever share of them a container may use, and be throttled for it.
instance_group [ { kind: KIND_CPU count: 2 } ]
parameters { key: "INTRA_OP_THREAD_COUNT" value { string_value: "1" } }
parameters { key: "INTER_OP_THREAD_COUNT" value { string_value: "1" } }
""",
        execution=_LIBTORCH_EXECUTION,
    )


def python_config(name: str, sensors: int, window: int, export: ExportSpec) -> str:
    """`configs/python.pbtxt`: the python backend on a CPU."""
    return _config(
        name,
        sensors,
        window,
        export,
        head=f"""\
# Model {name} for Triton with the python backend on a CPU. Written by training.export.
# Taken by: tritonserver --model-config-name=python
""",
        backend='backend: "python"\n',
        instances="""\
# An instance is a process with one thread: set the count to the number of cores.
instance_group [ { kind: KIND_CPU count: 2 } ]
""",
        execution="",
    )


def write_warmup(model_directory: Path, values: Floats, observed: Bools) -> None:
    """Write the raw bytes of one window [C, T], as Triton's warm-up reads them."""
    folder = model_directory / WARMUP_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    clean: NDArray[np.float32] = np.where(observed, values, 0).astype("<f4")
    (folder / VALUES.lower()).write_bytes(clean.tobytes())
    (folder / OBSERVED.lower()).write_bytes(observed.astype(np.bool_).tobytes())


def _version_policy(export: ExportSpec) -> str:
    reason = "Two versions: the one before answers while clients move on, and again if the new one is withdrawn."
    if export.served_versions != 2:  # existing repositories keep the usual line
        reason = "The newest versions stay loaded, each with its memory; a former one answers if the newest is bad."
    return f"# {reason}\nversion_policy: {{ latest {{ num_versions: {export.served_versions} }} }}"
