"""Single ops at ordinary sizes in Ebb and in PyTorch, in turn: forward, and with all gradients.

    ./bench ops [--quick] [--json] [--only=ROW,…]      # installs PyTorch from PyPI into build/peers, once

Rows where Ebb is slower are marked. PyTorch gives the gradient of a sum, a slice or a concatenation as a
view; Ebb's tensors are contiguous, so there it writes what PyTorch leaves to the next op.
"""
import argparse
import json
import math
import subprocess
import sys
import time

import run

PROGRAM = run.ROOT / "build/bench/benches/bench_ops"


def rows():
    """name → (inputs, function, with gradients)."""
    import torch
    import torch.nn.functional as F

    def some(*shape):
        return torch.randn(*shape) * 0.5

    def image(b, h, w, c):
        return some(b, c, h, w).to(memory_format=torch.channels_last)

    def ids(limit, *shape):
        return torch.randint(limit, shape)

    table = {}

    def row(name, inputs, f, gradients=True):
        table[name] = (inputs, f, gradients)

    def conv(name, x, w, **options):
        row(name, lambda: [image(*x), image(*w)], lambda a, b: F.conv2d(a, b, **options))

    conv("depthwise-3", (16, 56, 56, 96), (96, 3, 3, 1), padding=1, groups=96)
    conv("depthwise-7", (16, 28, 28, 192), (192, 7, 7, 1), padding=3, groups=192)
    conv("grouped", (16, 28, 28, 128), (128, 3, 3, 32), padding=1, groups=4)
    conv("dilated", (8, 64, 64, 64), (64, 3, 3, 64), padding=2, dilation=2)
    conv("first layer 7x7", (8, 224, 224, 3), (64, 7, 7, 3), stride=2, padding=3)
    conv("patches 16x16", (8, 224, 224, 3), (192, 16, 16, 3), stride=16)
    conv("one image", (1, 56, 56, 64), (64, 3, 3, 64), padding=1)
    conv("odd sizes", (7, 31, 29, 37), (53, 3, 3, 37), padding=1)
    conv("1x1 stride 2", (32, 28, 28, 128), (256, 1, 1, 128), stride=2)
    row("conv1d", lambda: [some(32, 64, 1000), some(128, 64, 5)], lambda x, w: F.conv1d(x, w, padding=2))
    row("max_pool2d", lambda: [image(32, 56, 56, 64)], lambda x: F.max_pool2d(x, 2, 2))
    row("avg_pool2d", lambda: [image(32, 56, 56, 64)], lambda x: F.avg_pool2d(x, 2, 2))
    row("batch_norm", lambda: [image(32, 56, 56, 64), some(64), some(64)],
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True))

    def product(name, a, b):
        row(name, lambda: [some(*a), some(*b)], torch.matmul)

    product("1x4096 4096x4096", (1, 4096), (4096, 4096))
    product("8x4096 4096x4096", (8, 4096), (4096, 4096))
    product("4096x16 16x4096", (4096, 16), (16, 4096))
    product("4096x4096 4096x16", (4096, 4096), (4096, 16))
    product("2048x1024 1024x128", (2048, 1024), (1024, 128))
    product("20000x64 64x64", (20000, 64), (64, 64))
    product("100x100 100x100", (100, 100), (100, 100))
    product("10x10 10x10", (10, 10), (10, 10))
    product("64 of 128x64 64x128", (64, 128, 64), (64, 64, 128))
    product("4096 of 8x8 8x8", (4096, 8, 8), (4096, 8, 8))

    def recurrent(name, kind, batch, steps, width, n):
        layer = kind(width, n, batch_first=True)
        row(name, lambda: [some(batch, steps, width)] + [p.detach() for p in layer.parameters()],
            lambda x, *w: torch.func.functional_call(layer, dict(zip(dict(layer.named_parameters()), w)), x)[0])

    recurrent("lstm 1x100 64", torch.nn.LSTM, 1, 100, 64, 64)
    recurrent("lstm 33x40 77", torch.nn.LSTM, 33, 40, 50, 77)
    recurrent("lstm 64x50 512", torch.nn.LSTM, 64, 50, 300, 512)
    recurrent("gru 8x200 100", torch.nn.GRU, 8, 200, 100, 100)

    def attend(name, batch, steps, heads, size, causal=False):
        def f(*qkv):
            split = [x.view(batch, steps, heads, size).transpose(1, 2) for x in qkv]
            y = F.scaled_dot_product_attention(*split, is_causal=causal)
            return y.transpose(1, 2).reshape(batch, steps, heads * size)
        row(name, lambda: [some(batch, steps, heads * size) for _ in range(3)], f)

    attend("attention 16x128 8x64", 16, 128, 8, 64)
    attend("attention 4x1000 8x80", 4, 1000, 8, 80, causal=True)
    attend("attention 64x33 4x32", 64, 33, 4, 32)

    def one(name, shape, f, gradients=True):
        row(name, lambda: [some(*shape)], f, gradients)

    two = lambda: [some(4096, 512), some(4096, 512)]
    one("heads to the front", (8, 512, 12, 64), lambda x: x.permute(0, 2, 1, 3).contiguous())
    one("transpose", (4096, 4096), lambda x: x.t().contiguous())
    one("channels first", (16, 56, 56, 64), lambda x: x.permute(0, 3, 1, 2).contiguous())
    one("flip", (4096, 1024), lambda x: x.flip(1))
    one("every second", (4096, 1024), lambda x: x[:, ::2].contiguous())
    one("tile", (256, 512), lambda x: x.repeat(8, 4))
    one("cumsum last axis", (4096, 1024), lambda x: x.cumsum(1))
    one("cumsum first axis", (4096, 1024), lambda x: x.cumsum(0))
    row("concat", two, lambda a, b: torch.cat([a, b], 1))
    row("stack last axis", two, lambda a, b: torch.stack([a, b], 2))
    row("gather rows", lambda: [some(50000, 256), ids(50000, 8192)], lambda w, i: F.embedding(i, w))
    row("take_along", lambda: [some(4096, 1024), ids(1024, 4096, 64)], lambda x, i: x.gather(1, i))
    row("one_hot", lambda: [ids(1000, 8192)], lambda i: F.one_hot(i, 1000).float(), False)

    cube = (64, 512, 512)
    one("sum", cube, lambda x: x.sum())
    one("sum first axis", cube, lambda x: x.sum(0))
    one("sum first and last", cube, lambda x: x.sum((0, 2)))
    one("sum of short rows", (1000000, 8), lambda x: x.sum(1))
    one("max last axis", cube, lambda x: x.amax(2))
    one("var middle axis", cube, lambda x: x.var(1))
    one("argmax", cube, lambda x: x.argmax(2), False)
    one("softmax 1000", (8192, 1000), lambda x: x.softmax(-1))
    one("softmax 10", (500000, 10), lambda x: x.softmax(-1))
    one("softmax middle axis", cube, lambda x: x.softmax(1))
    row("layer_norm 64", lambda: [some(100000, 64), some(64), some(64)],
        lambda x, w, b: F.layer_norm(x, (64,), w, b))
    row("times a row", lambda: [some(*cube), some(64, 1, 512)], torch.mul)
    row("times a column", lambda: [some(*cube), some(64, 512, 1)], torch.mul)
    row("add", lambda: [some(16777216), some(16777216)], torch.add)
    row("add 1000", lambda: [some(1000), some(1000)], torch.add)
    row("where", lambda: [some(4194304), some(4194304)], lambda a, b: torch.where(a > b, a, b))
    one("pow", (4194304,), lambda x: x.exp().pow(2.5))
    row("cross-entropy 32000", lambda: [some(2048, 32000), ids(32000, 2048)],
        lambda x, t: F.cross_entropy(x, t, reduction="sum"))
    return table


def best(f, seconds):
    least, start, count = math.inf, time.perf_counter(), 0
    while count < 3 or (count < 1000 and time.perf_counter() - start < seconds):
        begin = time.perf_counter()
        f()
        least = min(least, time.perf_counter() - begin)
        count += 1
    return 1000 * least


def with_torch(inputs, f, gradients, seconds):
    import torch
    values = inputs()
    with torch.no_grad():
        forward = best(lambda: f(*values), seconds)
    if not gradients:
        return {"forward": forward}
    sources = [v.requires_grad_() for v in values if v.is_floating_point()]

    def both():
        y = f(*values)
        torch.autograd.grad(y, sources, torch.ones_like(y))

    return {"forward": forward, "with gradients": best(both, seconds)}


def with_ebb(name, quick):
    command = [PROGRAM, "--json", f"--only={name}"] + (["--quick"] if quick else [])
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {m["metric"]: m["value"] for m in map(json.loads, lines)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", default="", help="rows, by comma")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args, _ = parser.parse_known_args()
    if not args.inside:  # again, with the virtual environment's interpreter
        python = run.python_of(run.ROOT / "build/peers")
        return subprocess.run([python, __file__, "--inside", *sys.argv[1:]]).returncode
    import torch
    torch.set_num_threads(2)
    table = rows()
    wanted = args.only.split(",") if args.only else list(table)
    wrong = set(wanted) - set(table)
    if wrong:
        parser.error(f"no row {', '.join(sorted(wrong))}; there are {', '.join(table)}")
    if not args.json:
        print(f"{'row':<24} {'forward: PyTorch':>17} {'Ebb, ms':>10} {'times':>7}"
              f" {'with gradients:':>17} {'Ebb, ms':>10} {'times':>7}")
    logs = []
    for name in wanted:
        mine, theirs = {}, {}
        for _ in range(1 if args.quick else 3):
            for found, least in ((with_ebb(name, args.quick), mine),
                                 (with_torch(*table[name], 0.15 if args.quick else 0.5), theirs)):
                for metric, value in found.items():
                    least[metric] = min(value, least.get(metric, math.inf))
        line, slower = f"{name:<24}", False
        for metric, ms in mine.items():
            ratio = theirs[metric] / ms
            logs.append(math.log(ratio))
            slower |= ratio < 1
            line += f" {theirs[metric]:17.3f} {ms:10.3f} {ratio:7.2f}"
            if args.json:
                print(json.dumps({"bench": "ops", "case": name, "metric": metric, "value": ms, "unit": "ms",
                                  "against": "PyTorch", "ratio": round(ratio, 3)}), flush=True)
        if not args.json:
            print(line + ("  <" if slower else ""), flush=True)
    if not args.json:
        below = sum(log < 0 for log in logs)
        print(f"geometric mean {math.exp(sum(logs) / len(logs)):.2f}; slower in {below} of {len(logs)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
