"""Model repositories as things to move between: what is there, brought, put up, and taken back.

    <repository>/<model>/contract.json               what the newest version promises
                         config.pbtxt, configs/, warmup/      one configuration for all versions
                         <version>/model.pt, contract.json    weights, and what these weights promise
    <repository>.withdrawn/<model>/<version>/        rolled back, or pruned: never served, its number never given again
    <repository>.staging/                            where a version is made whole; one rename puts it in its place

The two folders lie beside the repository and not in it, because Triton takes every folder of a repository for a model
and, started on one that is half written, does not start at all.
"""
