"""The live worker: Faust's agent and transport, rebuilds, health and lag."""

from glaim_stream.worker.batches import Batch
from glaim_stream.worker.partition import PartitionWorker
from glaim_stream.worker.rebuild import KafkaRebuilder
from glaim_stream.worker.restore import Rebuild
from glaim_stream.worker.run import quieten_garbage_collector, run_worker

__all__ = [
    "Batch",
    "KafkaRebuilder",
    "PartitionWorker",
    "Rebuild",
    "quieten_garbage_collector",
    "run_worker",
]
