"""Publishes a version: images and chart under one new tag, with SBOMs, notices, signatures and attestations.

    make release                                                            build the parts, publish nothing
    python -m deploy.release --registry registry.example/team --dry-run     print every command, and run none
    python -m deploy.release --registry registry.example/team               build, push, sign, attest and verify

Refused before anything is built: a tree with changes, a version that pyproject.toml, chart and change log do not share,
changes that are still under *Unreleased*, a version whose git tag or whose tag in the registry exists, a base image
without a digest, and a missing program. Tags are never used again: a release that stopped half-way has used up its
version, and the next one takes a new number.

Needs docker with buildx, helm and cosign. Without --key cosign signs with an identity of the OpenID provider
that the build runs under (keyless), and --identity and --issuer say which one the verification at the end expects.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from deploy.bases import OURS_ARE_BUILT_FROM, Base, TagUnknown, ask_registry, read_bases
from deploy.cache import CHECKOUT
from deploy.errors import DeployError
from deploy.helm import find_helm

CHART = CHECKOUT / "helm" / "glaim-stream"
OUT = Path("dist") / "release"
PROGRAMS = ("git", "docker", "helm", "cosign")
# linux/arm64 needs a wheel for every locked package, since nothing is compiled in the images: faust-streaming 0.15.3
# has none. A test in tests/deploy/test_images.py fails as soon as that changes.
IMAGES = {
    "worker": ("PYTHON_IMAGE", ("linux/amd64",)),
    "training": ("PYTHON_IMAGE", ("linux/amd64",)),
    "triton": ("TRITON_IMAGE", ("linux/amd64", "linux/arm64")),
}
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")  # semver.org, without build metadata: tags allow no `+`
_UNRELEASED = re.compile(r"^## Unreleased$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


class ReleaseRefused(DeployError):
    """Something forbids the release; nothing was built or pushed."""


class ReleaseFailed(DeployError):
    """A command failed after the release had begun; its version is used up."""


@dataclass(frozen=True)
class Signing:
    """The keys of cosign: a private one and its public half, or the identity and the issuer of a certificate."""

    key: str = ""
    public_key: str = ""
    identity: str = ""
    issuer: str = ""
    public_log: bool = True

    def sign(self) -> list[str]:
        """Options of `cosign sign` and `cosign attest`."""
        log = [] if self.public_log else ["--tlog-upload=false"]
        return ["--yes", *(["--key", self.key] if self.key else []), *log]

    def verify(self) -> list[str]:
        """Options of `cosign verify` and `cosign verify-attestation`."""
        if self.key:
            return ["--key", self.public_key, *([] if self.public_log else ["--insecure-ignore-tlog"])]
        return ["--certificate-identity", self.identity, "--certificate-oidc-issuer", self.issuer]


@dataclass(frozen=True)
class Release:
    """A release: version and commit of the checkout, the registry, and the base images."""

    version: str
    commit: str
    commit_time: str  # seconds since 1970: the time of every file in the images, so that a rebuild has the same layers
    registry: str
    bases: dict[str, Base]
    signing: Signing
    plain_http: bool = False  # the registry is on this machine

    def image(self, name: str) -> str:
        """Repository of an image, as the chart's values name it."""
        return f"{self.registry}/glaim-stream/{name}"

    @property
    def chart(self) -> str:
        """Repository of the chart."""
        return f"{self.registry}/charts/glaim-stream"

    def tags(self) -> list[str]:
        """Every tag that this release creates."""
        return [f"{each}:{self.version}" for each in (*map(self.image, IMAGES), self.chart)]


@dataclass(frozen=True)
class Step:
    """A command; `{name}` in its arguments is the digest that the step with `digest_of=name` has printed or written."""

    command: list[str]
    digest_of: str = ""
    metadata: str = ""  # file of buildx that contains the digest; else the command prints it


def version_of_checkout() -> str:
    """The version of images and chart.

    Raises:
        ReleaseRefused: It is no semantic version, or pyproject.toml, Chart.yaml and CHANGELOG.md differ.
    """
    version = str(tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"])
    if not _VERSION.fullmatch(version):
        raise ReleaseRefused(f"expected a semantic version such as 1.2.3 in pyproject.toml, found {version}")
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    for name in ("version", "appVersion"):
        if chart[name] != version:
            raise ReleaseRefused(f"expected {name} {version} in Chart.yaml, as in pyproject.toml, found {chart[name]}")
    if not re.search(rf"^## {re.escape(version)}\b", _change_log(), re.MULTILINE):
        raise ReleaseRefused(f"expected a section `## {version}` in CHANGELOG.md, as in pyproject.toml, found none")
    return version


def _change_log() -> str:
    return (CHECKOUT / "CHANGELOG.md").read_text()


def steps(release: Release) -> Iterator[Step]:
    """Every command of a release, in order."""
    out = str(OUT)
    yield Step([sys.executable, "-m", "deploy.sbom", "--out", out])
    yield Step([sys.executable, "-m", "deploy.notices", "--out", out])
    for name, (base, platforms) in IMAGES.items():
        metadata = f"{out}/{name}.json"
        yield Step(
            [
                "docker", "buildx", "build", "--file", f"deploy/images/{name}/Containerfile",
                "--platform", ",".join(platforms),
                "--output", "type=image,push=true,rewrite-timestamp=true",
                "--provenance", "mode=max", "--metadata-file", metadata,
                "--tag", f"{release.image(name)}:{release.version}",
                "--build-arg", f"{base}={release.bases[base].reference}",
                "--build-arg", f"VERSION={release.version}",
                "--build-arg", f"REVISION={release.commit}",
                "--build-arg", f"SOURCE_DATE_EPOCH={release.commit_time}",
                ".",
            ],
            digest_of=name,
            metadata=metadata,
        )  # fmt: skip
        subject = f"{release.image(name)}@{{{name}}}"
        yield from _signed(release, subject, f"{out}/sbom-{name}.cdx.json")
    plain = ["--plain-http"] if release.plain_http else []
    package = f"{out}/glaim-stream-{release.version}.tgz"
    yield Step(["helm", "package", str(CHART.relative_to(CHECKOUT)), "--destination", out])
    yield Step(["helm", "push", package, f"oci://{release.registry}/charts", *plain], digest_of="chart")
    yield from _signed(release, f"{release.chart}@{{chart}}", f"{out}/sbom-chart.cdx.json")
    # buildx attests how the images were made; for the chart this file does.
    provenance = ["--type", "slsaprovenance1", "--predicate", f"{out}/provenance-chart.json"]
    yield Step(["cosign", "attest", *release.signing.sign(), *provenance, f"{release.chart}@{{chart}}"])
    yield Step(["git", "tag", "--annotate", f"v{release.version}", "--message", f"glaim-stream {release.version}"])
    yield Step(["git", "push", "origin", f"v{release.version}"])


def _signed(release: Release, subject: str, sbom: str) -> Iterator[Step]:
    signing, described = release.signing, ["--type", "cyclonedx"]
    yield Step(["cosign", "sign", *signing.sign(), subject])
    yield Step(["cosign", "attest", *signing.sign(), *described, "--predicate", sbom, subject])
    yield Step(["cosign", "verify", *signing.verify(), subject])
    yield Step(["cosign", "verify-attestation", *signing.verify(), *described, subject])


def refusals(release: Release) -> Iterator[str]:
    """Why this release must not begin; nothing if it may."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        yield f"expected {', '.join(PROGRAMS)} on PATH, found no {', '.join(missing)}"
    changes = _output("git", "status", "--porcelain").splitlines()
    if changes:
        yield f"expected a tree without changes, found {len(changes)}, the first is {changes[0].strip()}"
    unreleased = "".join(_UNRELEASED.findall(_change_log())).strip().splitlines()
    if unreleased:
        where = f"under {release.version} in CHANGELOG.md"
        yield f"expected the changes {where}, found {len(unreleased)} lines under Unreleased"
    # They are not changes to git, and the build would copy them.
    extra = _output("git", "ls-files", "--others", "--ignored", "--exclude-standard", "model_repo").splitlines()
    extra = [path for path in extra if "__pycache__" not in path]
    if extra:
        yield f"expected only the shipped models in model_repo, found {len(extra)} other files, the first {extra[0]}"
    if _output("git", "tag", "--list", f"v{release.version}").strip():
        yield f"expected a new version, found the git tag v{release.version}"
    for name in OURS_ARE_BUILT_FROM:
        if release.bases[name].digest is None:
            yield f"expected {name} of deploy/.env with a digest, found {release.bases[name].reference}: " + (
                "run `python -m deploy.bases --pin`"
            )
    for tag in release.tags() if release.registry else ():
        yield from _tag_refusals(tag)


def _tag_refusals(tag: str) -> Iterator[str]:
    """A tag that exists, and a registry that does not say whether it does."""
    try:
        yield f"expected a new tag, found {tag} in the registry as {ask_registry(tag)}: raise the version"
    except TagUnknown:
        return
    except DeployError as error:
        yield str(error)


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


def rehearse() -> None:
    """Package the chart beside what `make dist sbom` has built, and print what a release would tag and publish.

    Raises:
        ReleaseRefused: The versions differ, or nothing has been built.
        DeployError: There is no helm.
    """
    version = version_of_checkout()
    out = CHECKOUT / "dist"
    package = [str(find_helm()), "package", str(CHART), "--destination", str(out)]
    subprocess.run(package, cwd=CHECKOUT, check=True, capture_output=True)
    patterns = (
        f"glaim_stream-{version}*.whl",
        f"glaim_stream-{version}.tar.gz",
        f"glaim-stream-{version}.tgz",
        "sbom-*",
    )
    for pattern in patterns:
        files = sorted(out.glob(pattern))
        if not files:
            raise ReleaseRefused(f"expected dist/{pattern}, found none: run `make dist sbom`")
        for file in files:
            print(f"built {file.relative_to(CHECKOUT)}, sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}")
    release = Release(version, _output("git", "rev-parse", "HEAD").strip(), "", "REGISTRY", read_bases(), Signing())
    for tag in (f"git tag v{version} of commit {release.commit}", *release.tags()):
        print(f"would publish {tag}")
    for reason in refusals(replace(release, registry="")):
        print(f"# would be refused: {reason}")
    print("published nothing")


def provenance(release: Release) -> str:
    """The SLSA 1.0 predicate of the chart: built by this script from this commit."""
    predicate = {
        "buildDefinition": {
            "buildType": "urn:glaim-stream:helm-package",
            "externalParameters": {"version": release.version, "path": str(CHART.relative_to(CHECKOUT))},
            "resolvedDependencies": [{"name": "source", "digest": {"gitCommit": release.commit}}],
        },
        "runDetails": {"builder": {"id": "urn:glaim-stream:deploy.release"}},
    }
    return json.dumps(predicate, indent=2) + "\n"


def values_of_digests(release: Release, digests: dict[str, str]) -> str:
    """Values for `helm install --values`: the images of this release by digest, from its registry."""
    values: dict[str, dict[str, object]] = {"image": {"registry": release.registry}}
    values |= {name: {"image": {"digest": digests[name]}} for name in IMAGES}
    return yaml.safe_dump(values, sort_keys=False)


def run(release: Release) -> None:
    """Run every step, and write the values that name the images by digest.

    Raises:
        ReleaseRefused: Something forbids it; the message lists everything that does.
        ReleaseFailed: A command failed, or named no digest.
    """
    forbidden = list(refusals(release))
    if forbidden:
        raise ReleaseRefused("\n".join(forbidden))
    folder = CHECKOUT / OUT
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "provenance-chart.json").write_text(provenance(release))
    digests: dict[str, str] = {}
    for step in steps(release):
        command = [word.format(**digests) if "@{" in word else word for word in step.command]
        print(shlex.join(command), flush=True)
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=bool(step.digest_of), text=True, check=False)
        told = (done.stdout or "") + (done.stderr or "")
        if done.returncode != 0:
            raise ReleaseFailed(f"`{shlex.join(command)}` ended with status {done.returncode}: {told[-2000:]}")
        if step.digest_of:
            where = (CHECKOUT / step.metadata).read_text() if step.metadata else told
            digests[step.digest_of] = _digest(step, where)
    (folder / "values-digests.yaml").write_text(values_of_digests(release, digests))


def _digest(step: Step, where: str) -> str:
    named = str(json.loads(where).get("containerimage.digest")) if step.metadata else where
    found = _DIGEST.findall(named)
    if len(set(found)) != 1:
        raise ReleaseFailed(f"expected one digest from `{shlex.join(step.command)}`, found {named[-500:]}")
    return str(found[0])


def main(arguments: list[str] | None = None) -> int:
    """Publish a version, or print how."""
    parser = argparse.ArgumentParser(prog="python -m deploy.release", description="Publish images and chart.")
    parser.add_argument("--registry", default="", help="prefix of every name, such as registry.example/team")
    parser.add_argument("--rehearse", action="store_true", help="package the chart and print what would be published")
    parser.add_argument("--key", default="", help="private key of cosign, a file or a KMS URI (default: keyless)")
    parser.add_argument("--public-key", default="", help="the public half of --key, for the verification")
    parser.add_argument("--identity", default="", help="keyless: the identity that the certificate must have")
    parser.add_argument("--issuer", default="", help="keyless: the issuer of that identity")
    parser.add_argument("--no-public-log", action="store_true", help="with --key: no entry in the transparency log")
    parser.add_argument("--plain-http", action="store_true", help="push the chart to a registry without TLS")
    parser.add_argument("--dry-run", action="store_true", help="print every command and what would refuse it; run none")
    given = parser.parse_args(arguments)
    if given.rehearse:
        try:
            rehearse()
        except DeployError as error:
            print(f"error: {error}")
            return 1
        return 0
    if not given.registry:
        parser.error("expected --registry, or --rehearse")
    if bool(given.key) != bool(given.public_key) or (not given.key and not (given.identity and given.issuer)):
        parser.error("expected --key with --public-key, or --identity with --issuer")
    if given.no_public_log and not given.key:
        parser.error("expected --no-public-log with --key: a keyless signature is valid by its entry in the log")
    try:
        release = Release(
            version=version_of_checkout(),
            commit=_output("git", "rev-parse", "HEAD").strip(),
            commit_time=_output("git", "show", "--no-patch", "--format=%ct", "HEAD").strip(),
            registry=given.registry.rstrip("/"),
            bases=read_bases(),
            signing=Signing(given.key, given.public_key, given.identity, given.issuer, not given.no_public_log),
            plain_http=given.plain_http,
        )
        if given.dry_run:
            for reason in refusals(release):
                print(f"# refused: {reason}")
            for step in steps(release):
                print(shlex.join(step.command))
        else:
            run(release)
    except DeployError as error:
        print(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
