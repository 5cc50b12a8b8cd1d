"""Reads a checkpoint that a test has saved with the `safetensors` package: names, types, shapes, values, and what its
manifest.json says of them; then the model of a run of the program.

usage: read_with_safetensors.py FOLDER_OF_PROGRAMS        (tools/check_readers gives it)
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import xxhash
from safetensors import deserialize, safe_open

CONFIG = """
[model]
kind = "mlp"
hidden = [16]
[data]
format = "digits"
rows = 100
[train]
batch = 32
epochs = 1
"""


def check_manifest(folder):
    manifest = json.load(open(folder / "manifest.json", encoding="utf-8"))
    count = 0
    for file in manifest["files"]:
        content = (folder / file["name"]).read_bytes()
        assert len(content) == file["bytes"]
        assert xxhash.xxh3_64_hexdigest(content) == file["xxh3"], file["name"]
        found = dict(deserialize(content))
        assert sorted(found) == sorted(t["name"] for t in file["tensors"])
        for t in file["tensors"]:
            f = found[t["name"]]
            assert f["dtype"] == t["dtype"] and list(f["shape"]) == t["shape"], t
            assert xxhash.xxh3_64_hexdigest(bytes(f["data"])) == t["xxh3"], t
            count += 1
    return manifest, count


def check_every_type(programs, work):
    run = work / "run"
    command = [programs / "train_tests", "--gtest_brief=1", "--gtest_filter=ForOthers.EveryDType"]
    environment = dict(os.environ, EBB_CHECKPOINT_FOR_OTHERS=str(run))
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    manifest, count = check_manifest(run)
    assert manifest["step"] == 5 and manifest["extra"]["config"] == "lr = 1", manifest
    with safe_open(run / "model.safetensors", framework="np") as f:
        for name in ("f32", "f64", "f16", "u8", 'a "quoted" näme', "empty", "i32"):
            a = f.get_tensor(name)
            assert (a.ravel() == numpy.arange(a.size) % 100).all(), name
    return count


def check_run(programs, work):
    (work / "run.toml").write_text(CONFIG)
    program = programs.parent / "apps" / "ebb" / "ebb"
    out = work / "trained"
    subprocess.run([program, "train", work / "run.toml", "--out", out], check=True, capture_output=True)
    checkpoint = sorted((out / "checkpoints").glob("step-*"))[-1]
    manifest, count = check_manifest(checkpoint)
    assert manifest["step"] == 3, manifest["step"]
    with safe_open(out / "model" / "model.safetensors", framework="np") as f:
        shapes = sorted(f.get_tensor(name).shape for name in f.keys())
        assert shapes == [(10,), (10, 16), (16,), (16, 784)], shapes
        assert all(numpy.isfinite(f.get_tensor(name)).all() for name in f.keys())
    return count


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        count = check_every_type(programs, work) + check_run(programs, work)
    print(f"safetensors: {count} tensors read as they were written")


if __name__ == "__main__":
    main()
