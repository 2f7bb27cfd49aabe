"""`python -m tests.chaos.randomised --seeds 1-10`: runs seeds of random faults and prints what each gave.

With `--without fence|abort|offset` a part of exactly-once delivery is removed from the worker: then the first seed that
notices ends the search, and it is an error if none does.
"""

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from deploy.cache import CHECKOUT
from tests.chaos.randomised.run import SECONDS, Result, run
from tests.chaos.randomised.schedule import draw
from tests.chaos.randomised.worker import REMOVALS

RESULTS = CHECKOUT / "build" / "random_faults.jsonl"
EACH = ("committed", "aborted", "fenced")  # none of them may be 0 over ten seeds


def seeds_of(text: str) -> list[int]:
    """`1-10,17` as a list."""
    spans = [part.partition("-") for part in text.split(",")]
    return [seed for first, _, last in spans for seed in range(int(first), int(last or first) + 1)]


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds; the exit status is 1 when the result is not the expected one."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.randomised", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default="1-10", help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of faults for each seed, default %(default)s")
    parser.add_argument("--without", choices=sorted(REMOVALS), help="remove this part of exactly-once delivery")
    parser.add_argument("--schedule", action="store_true", help="print the faults of the seeds and run nothing")
    options = parser.parse_args(arguments)
    if options.schedule:
        for seed in options.seeds:
            print(f"seed {seed}", *draw(seed, options.seconds), sep="\n  ")
        return 0
    results = []
    for result in _runs(options.seeds, options.seconds, options.without):
        results.append(result)
        if options.without and result.problems:
            print(f"without the {options.without}, seed {result.seed} is red")
            return 0
    if options.without:
        print(f"without the {options.without}, no seed is red")
        return 1
    totals = {name: sum(result.counts[name] for result in results) for name in EACH}
    red = [result.seed for result in results if result.problems]
    print(f"{len(results) - len(red)} of {len(results)} seeds green, red: {red or 'none'}; transactions {totals}")
    return 1 if red or (len(results) >= 10 and not all(totals.values())) else 0


def _runs(seeds: list[int], seconds: float, without: str | None) -> Iterator[Result]:
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        directory = Path(tempfile.mkdtemp(prefix=f"glaim-random-{seed}-"))
        result = run(seed, directory, seconds=seconds, without=without)
        print(result.text(), flush=True)
        with RESULTS.open("a") as file:
            file.write(json.dumps(result.line() | ({"without": without} if without else {})) + "\n")
        if not result.problems:
            shutil.rmtree(directory)
        yield result


if __name__ == "__main__":
    raise SystemExit(main())
