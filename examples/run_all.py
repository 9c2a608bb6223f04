"""Run every example, one after the other; fail if one fails.

python examples/run_all.py --smoke        seconds each
python examples/run_all.py                as a reader would run them
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path


def main(smoke=False):
    examples = sorted(path for path in Path(__file__).parent.glob("*.py") if path.name != Path(__file__).name)
    # one thread each, unless told otherwise: the graphs are small, and threads that wait for each other are slow
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    failed = []
    for path in examples:
        began = time.perf_counter()
        finished = subprocess.run(
            [sys.executable, str(path), *(["--smoke"] if smoke else [])],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        verdict = "ok" if finished.returncode == 0 else f"FAILED with exit code {finished.returncode}"
        last = (finished.stdout.strip().splitlines() or ["(no output)"])[-1]
        print(f"{path.name:<28} {verdict:<6} {time.perf_counter() - began:5.1f} s  {last}", flush=True)
        if finished.returncode:
            failed.append(path.name)
            print(finished.stdout + finished.stderr, file=sys.stderr)
    return 1 if failed or not examples else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="seconds each, to see that they run")
    sys.exit(main(**vars(parser.parse_args())))
