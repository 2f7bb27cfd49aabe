"""Models as files: contracts, their versions, and the repositories that hold them.

`contract` describes a model, and `served` holds the contracts of all versions that impute while a worker runs.
`sealed` checks a version before it is used: its files against `manifest`, the manifest's signature with `minisign`, and
its `torchscript` against `operators`. The other modules list, fetch, push, roll back and prune repositories:

    <repository>/<model>/contract.json               contract of the newest version
                         config.pbtxt, configs/, warmup/      one configuration for all versions
                         <version>/model.pt, contract.json    weights of a version, and their contract
                         <version>/manifest.json              digests of all files that serve the version
    <repository>.withdrawn/<model>/<version>/        rolled back or pruned: never served, its number never reused
    <repository>.withdrawn/<model>/forms/            former closed forms, and those rolled back
    <repository>.staging/                            where a version is completed before one rename puts it in place

The last two folders lie beside the repository, not in it, because Triton takes every folder of a repository for a model
and does not start if one is incomplete.
"""

from glaim_stream.models.fetch import fetch, is_here
from glaim_stream.models.folders import DiskFolder
from glaim_stream.models.form_folders import can_write, form_folder
from glaim_stream.models.form_history import ListedForm, keep_form, listed_forms, rollback_form
from glaim_stream.models.form_manifest import FORM_FILES, place_form, read_sealed_form, seal_form
from glaim_stream.models.hold import HOLD_FILE, held, release, require_folder_released
from glaim_stream.models.listing import listing
from glaim_stream.models.local import all_withdrawn, highest_ever, join, move, staging, version_numbers, withdrawn
from glaim_stream.models.prune import prune
from glaim_stream.models.push import push
from glaim_stream.models.rollback import rollback
from glaim_stream.models.sealed import is_sealed, open_sealed, read_sealed_contract, seal, warn_unsealed
from glaim_stream.models.served import Contracts
from glaim_stream.models.store import Store, open_store
from glaim_stream.models.torchscript import require_known_operators

__all__ = [
    "FORM_FILES",
    "HOLD_FILE",
    "Contracts",
    "DiskFolder",
    "ListedForm",
    "Store",
    "all_withdrawn",
    "can_write",
    "fetch",
    "form_folder",
    "held",
    "highest_ever",
    "is_here",
    "is_sealed",
    "join",
    "keep_form",
    "listed_forms",
    "listing",
    "move",
    "open_sealed",
    "open_store",
    "place_form",
    "prune",
    "push",
    "read_sealed_contract",
    "read_sealed_form",
    "release",
    "require_folder_released",
    "require_known_operators",
    "rollback",
    "rollback_form",
    "seal",
    "seal_form",
    "staging",
    "version_numbers",
    "warn_unsealed",
    "withdrawn",
]
