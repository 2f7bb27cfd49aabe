"""Models as files: contracts, their versions, and the repositories that hold them.

`contract` describes a model, and `versions` holds the contracts of all versions that impute while a worker runs.
`sealed` checks a version before it is used: its files against `manifest`, the manifest's signature with `minisign`, and
its `torchscript` against `operators`. The other modules list, fetch, push, roll back and prune repositories:

    <repository>/<model>/contract.json               contract of the newest version
                         config.pbtxt, configs/, warmup/      one configuration for all versions
                         <version>/model.pt, contract.json    weights of a version, and their contract
                         <version>/manifest.json              digests of all files that serve the version
    <repository>.withdrawn/<model>/<version>/        rolled back or pruned: never served, its number never reused
    <repository>.staging/                            where a version is completed before one rename puts it in place

The last two folders lie beside the repository, not in it, because Triton takes every folder of a repository for a model
and does not start if one is incomplete.
"""
