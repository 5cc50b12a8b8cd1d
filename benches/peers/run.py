"""The same work in Ebb and in PyTorch, TensorFlow and JAX, in turn, each in a process of its own.

    ./bench peers [--quick] [--json] [--only=gpt-mini,lstm] [--frameworks=torch,jax] [--rows=FILE]

Makes build/peers with the pinned packages of requirements.txt when it is missing. `--quick`: one
round, and of each row only the framework that is the fastest here as a rule. `--rows`: other
sizes, in a file like rows.json.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import venv

import work

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = ROOT / "build/bench/benches/bench_models"
ALL = ["torch", "torch-compile", "jax", "tf", "tf-xla"]
FASTEST = {"mlp-32": "torch", "mlp-128": "jax", "mlp-512": "torch", "lstm": "tf-xla", "lstm-lm": "torch",
           "gpt-mini": "tf", "gpt-124m": "tf-xla", "gpt-long": "torch", "cnn": "torch", "cnn-wide": "tf",
           "attention": "torch", "linear-ce": "tf-xla", "linear-ce-256k": "tf", "input-grad": "tf-xla",
           "tiny": "jax", "tiny-mlp": "jax", "embedding": "tf-xla"}
BARS = {"mlp-32": 1.3, "mlp-128": 1.2, "mlp-512": 1.15, "lstm": 1.2, "lstm-lm": 1.1, "gpt-mini": 1.2,
        "gpt-124m": 1.03, "gpt-long": 1.35, "cnn": 1.25, "cnn-wide": 1.03, "attention": 1.5,
        "linear-ce": 1.0, "linear-ce-256k": 1.05, "input-grad": 1.2, "tiny": 4, "tiny-mlp": 7,
        "embedding": 1.6}


def python_of(folder):
    """The virtual environment's interpreter; made and filled when missing."""
    python = folder / "bin" / "python"
    done = folder / "filled"
    if not done.exists():
        print(f"making {folder.relative_to(ROOT)}: some 2 GB, once", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt"], check=True)
        done.touch()
    return python


def kinds():
    """The first row of the table of each kind."""
    first = {}
    for name, row in work.rows().items():
        first.setdefault(row["kind"], name)
    return first


def check(rows):
    if not isinstance(rows, dict):
        raise ValueError("expected an object of rows by name")
    for name, row in rows.items():
        if not isinstance(row, dict) or row.get("kind") not in kinds():
            raise ValueError(f"row {name} has no kind of {', '.join(kinds())}")


def ebb(row, seconds):
    command = [PROGRAM, "--cell", f"model={json.dumps(row)}", "batch=0", "steps=2", f"seconds={seconds}"]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        r = json.loads(done.stdout)
    except ValueError:
        return {"failed": done.stderr.strip()[-300:] or f"status {done.returncode}"}
    if r["error"]:
        return {"failed": r["error"]}
    return {"ms": 1000 * r["step_seconds"], "peak_mb": r["peak"] / 2**20}


def peer(python, framework, row, seconds):
    command = [python, HERE / "peer.py", "--framework", framework, "--row", json.dumps(row), "--seconds", str(seconds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        r = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"failed": "more than 600 s"}
    except (IndexError, ValueError):
        return {"failed": done.stderr.strip()[-300:]}
    return {"skipped": True} if r.get("skipped") else {"ms": r["ms_per_step"], "peak_mb": r["peak_rss_mb"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", default="", help="rows, by comma")
    parser.add_argument("--rows", help="a file of rows (default: rows.json)")
    parser.add_argument("--frameworks", default="", help="by comma")
    args = parser.parse_args()
    try:
        rows = work.rows(args.rows)
        check(rows)
    except (OSError, ValueError) as e:
        parser.error(f"no rows in {args.rows}: {e}; benches/peers/rows.json shows how they are written")
    only = args.only.split(",") if args.only else list(rows)
    wrong = set(only) - set(rows)
    if wrong:
        parser.error(f"no row {', '.join(sorted(wrong))}; there are {', '.join(rows)}")
    python = python_of(ROOT / "build/peers")
    rounds, seconds, short = (1, 4, 0) if args.quick else (3, 10, 0)

    if not args.json:
        print(f"{'row':<15} {'':<14} {'ms a step':>10} {'peak MiB':>9} {'Ebb is':>8}")
    for row in only:
        what, bar = rows[row], None if args.rows else BARS[row]
        frameworks = args.frameworks.split(",") if args.frameworks else [FASTEST[kinds()[what["kind"]] if args.rows else row]] if args.quick else ALL
        best = {}
        for _ in range(rounds):
            for name in ["ebb", *frameworks]:
                r = ebb(what, seconds) if name == "ebb" else peer(python, name, what, seconds)
                if name not in best or r.get("ms", 1e99) < best[name].get("ms", 1e99):
                    best[name] = r
        own = best["ebb"].get("ms")
        for name, r in best.items():
            ratio = r["ms"] / own if own and "ms" in r else None
            if args.json:
                print(json.dumps({"bench": "peers", "case": row, "metric": "time a step of " + name,
                                  "value": r.get("ms", 0) / 1000, "unit": "s", "peak_mib": r.get("peak_mb"),
                                  "against": "ebb", "ratio": ratio}), flush=True)
            elif "ms" in r:
                times = "" if name == "ebb" else f"{ratio:7.2f}×"
                print(f"{row:<15} {name:<14} {r['ms']:10.4g} {r['peak_mb']:9.0f} {times:>8}", flush=True)
            elif "failed" in r:
                print(f"{row:<15} {name:<14} {r['failed'].splitlines()[-1] if r['failed'] else 'failed'}", flush=True)
        others = [r["ms"] for name, r in best.items() if name != "ebb" and "ms" in r]
        if own and others:
            reached = min(others) / own
            short += bar is not None and reached < bar
            if not args.json and bar:
                verdict = "pass" if reached >= bar else "FAIL"
                print(f"  {verdict}  {row}: {reached:.2f} times as fast as the best (bar {bar})", flush=True)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
