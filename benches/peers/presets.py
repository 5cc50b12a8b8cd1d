"""Ebb's presets beside PyTorch: the gradient of every parameter on the same weights and data, and
the losses of a character model on the same text.

    ./bench presets [--quick]      # installs PyTorch from PyPI into build/peers, once
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import run

PROGRAM = run.ROOT / "build/bench/benches/bench_presets"
WORST = 1e-4  # relative difference of a gradient
LOSS = 0.01  # of the character model's last losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer steps of the character model")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args, _ = parser.parse_known_args()
    if not args.inside:  # again, with the virtual environment's interpreter
        python = run.python_of(run.ROOT / "build/peers")
        return subprocess.run([python, __file__, "--inside", *sys.argv[1:]]).returncode
    with tempfile.TemporaryDirectory() as folder:
        failed = gradients(pathlib.Path(folder) / "gradients", args.json)
        failed += learning(pathlib.Path(folder), 100 if args.quick else 500, args.json)
    return 1 if failed else 0


def tell(as_json, case, metric, value, passed, text):
    if as_json:
        print(json.dumps({"bench": "presets", "case": case, "metric": metric, "value": value, "unit": "",
                          "passed": passed}), flush=True)
    else:
        print(f"  {'pass' if passed else 'FAIL'}  {case:<14} {text}", flush=True)
    return 0 if passed else 1


def load(folder):
    import numpy as np
    import torch

    params, wanted, data = {}, {}, {}
    for file in sorted(folder.glob("*.npy")):
        array = torch.from_numpy(np.load(file))
        if file.name.endswith(".grad.npy"):
            wanted[file.name[: -len(".grad.npy")]] = array
        elif file.name in ("x.npy", "y.npy"):
            data[file.name[0]] = array
        else:
            params[file.name[: -len(".npy")]] = array.requires_grad_()
    return params, wanted, data


def gradients(folder, as_json):
    done = subprocess.run([PROGRAM, folder], capture_output=True, text=True, check=True)
    failed = 0
    for line in done.stdout.splitlines():
        preset = json.loads(line)
        params, wanted, data = load(folder / preset["preset"])
        loss = LOSSES[preset["preset"]](Named(params), data["x"], data["y"].long())
        loss.backward()
        worst, where = 0.0, ""
        for name, p in params.items():
            scale = max(wanted[name].abs().max().item(), 1e-12)
            off = (p.grad - wanted[name]).abs().max().item() / scale
            if off >= worst:
                worst, where = off, name
        off = abs(loss.item() - preset["loss"]) / abs(loss.item())
        failed += tell(as_json, preset["preset"], "largest relative difference", worst,
                       worst <= WORST and off <= WORST,
                       f"{len(params)} parameters, worst {worst:.1e} at {where}, loss off by {off:.1e}")
    return failed


def learning(folder, steps, as_json):
    """The same first weights, text, windows and steps."""
    import torch

    done = subprocess.run([PROGRAM, folder / "gpt", str(steps)], capture_output=True, text=True, check=True)
    own = [json.loads(line)["loss"] for line in done.stdout.splitlines()]
    text = (folder / "gpt/text").read_bytes()
    params, _, _ = load(folder / "gpt")
    model = Named(params)
    characters = sorted(set(text))
    number = {c: i for i, c in enumerate(characters)}
    ids = torch.tensor([number[c] for c in text])
    batch, window = 16, 64
    count = (len(ids) - 1) // window // batch
    torch.set_num_threads(2)
    optimizer = torch.optim.AdamW(params.values(), 1e-3, weight_decay=0.01)
    theirs = []
    for step in range(steps):
        at = step % count * batch * window
        x = ids[at : at + batch * window].view(batch, window)
        y = ids[at + 1 : at + 1 + batch * window].view(batch, window)
        loss = gpt(model, x, y, heads=4)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        theirs.append(loss.item())
    tail = max(1, steps // 10)
    a, b = sum(own[-tail:]) / tail, sum(theirs[-tail:]) / tail
    return tell(as_json, "character model", "loss", a, abs(a - b) <= LOSS * b,
                f"loss after {steps} steps (mean of the last {tail}): {a:.4f}, PyTorch {b:.4f}; first {own[0]:.4f}")


class Named:
    """Parameters by path: p / "layers.0" % "weight"."""

    def __init__(self, params, path=""):
        self.params, self.path = params, path

    def __truediv__(self, part):
        return Named(self.params, f"{self.path}{part}.")

    def __mod__(self, name):
        return self.params.get(self.path + name)

    def count(self, part):
        return len({n[len(self.path + part) + 1 :].split(".")[0] for n in self.params
                    if n.startswith(self.path + part + ".")})


def dense(p, x):
    return torch_f().linear(x, p % "weight", p % "bias")


def torch_f():
    from torch.nn import functional

    return functional


def norm(p, x, eps=1e-5):
    if p % "bias" is None:
        return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * (p % "weight")
    return torch_f().layer_norm(x, x.shape[-1:], p % "weight", p % "bias", eps)


def rotated(x, base=10000.0):  # (batch, heads, positions, width)
    import torch

    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[2], dtype=x.dtype)[:, None] * base ** (-torch.arange(half, dtype=x.dtype) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def block(p, x, heads, kv_heads, causal, rotary, gate):
    f = torch_f()
    batch, positions, width = x.shape
    h = norm(p / "attn_norm", x)
    a = p / "attn"

    def split(t, n):
        return t.view(batch, positions, n, -1).transpose(1, 2)

    q = split(dense(a / "q_proj", h), heads)
    k, v = (split(dense(a / n, h), kv_heads) for n in ("k_proj", "v_proj"))
    if rotary:
        q, k = rotated(q), rotated(k)
    k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
    mixed = f.scaled_dot_product_attention(q, k, v, is_causal=causal)
    x = x + dense(a / "o_proj", mixed.transpose(1, 2).reshape(batch, positions, width))
    h, m = norm(p / "mlp_norm", x), p / "mlp"
    up = dense(m / "up_proj", h)
    if gate == "swiglu":
        inner = f.silu(dense(m / "gate_proj", h)) * up
    else:
        inner = f.gelu(up, approximate="tanh" if gate == "gelu_tanh" else "none")
    return x + dense(m / "down_proj", inner)


def states(p, ids, heads, kv_heads=None, causal=True, rotary=False, gate="gelu_tanh"):
    x = (p / "tokens" % "weight")[ids.long()]
    positions = p / "positions" % "weight"
    if positions is not None:
        x = x + positions[: ids.shape[1]]
    for i in range(p.count("layers")):
        x = block(p / "layers" / i, x, heads, kv_heads or heads, causal, rotary, gate)
    return norm(p / "norm", x)


def gpt(p, x, y, heads, **how):
    head = p / "head" % "weight"
    logits = states(p, x, heads, **how) @ (p / "tokens" % "weight" if head is None else head).T
    return torch_f().cross_entropy(logits.flatten(0, 1), y.flatten())


def encoder(p, x, y):
    return torch_f().cross_entropy(
        dense(p / "head", states(p, x, 4, causal=False, gate="gelu").mean(1)), y)


def mlp(p, x, y):
    count = p.count("layers")
    for i in range(count):
        x = dense(p / "layers" / i, x)
        x = x.relu() if i + 1 < count else x
    return torch_f().cross_entropy(x, y)


def conv(p, x, stride=1):  # weights are (out, height, width, in)
    weight = (p % "weight").permute(0, 3, 1, 2)
    return torch_f().conv2d(x, weight, p % "bias", stride, weight.shape[-1] // 2)


def conv_norm(p, x, stride=1):
    n = p / "norm"
    return torch_f().batch_norm(conv(p / "conv", x, stride), None, None, n % "weight", n % "bias", True)


def resnet(p, x, y):
    x = conv_norm(p / "first", x.permute(0, 3, 1, 2)).relu()
    for i in range(p.count("blocks")):
        b = p / "blocks" / i
        changes = b / "shortcut" / "conv" % "weight" is not None
        short = conv_norm(b / "shortcut", x, 2) if changes else x
        x = (conv_norm(b / "b", conv_norm(b / "a", x, 2 if changes else 1).relu()) + short).relu()
    return torch_f().cross_entropy(dense(p / "head", x.mean((2, 3))), y)


def convnet(p, x, y):
    x = x.permute(0, 3, 1, 2)
    for i in range(p.count("layers")):
        x = conv(p / "layers" / i, x).relu()
        x = torch_f().max_pool2d(x, 2) if i % 2 else x
    return torch_f().cross_entropy(dense(p / "head", x.permute(0, 2, 3, 1).flatten(1)), y)


def rnn(p, x, kind):  # all outputs
    import torch

    hidden = (p % "weight_hh_l0").shape[1]
    names = [n[len(p.path) :] for n in p.params if n.startswith(p.path)]
    layer = getattr(torch.nn, kind)(x.shape[-1], hidden, len(names) // 4, batch_first=True, dtype=x.dtype)
    return torch.func.functional_call(layer, {n: p % n for n in names}, (x,))[0]


def sequence(kind):
    return lambda p, x, y: torch_f().cross_entropy(dense(p / "head", rnn(p / "rnn", x, kind)[:, -1]), y)


def recurrent_lm(kind):
    def loss(p, x, y):
        h = rnn(p / "rnn", (p / "tokens" % "weight")[x.long()], kind)
        a = p / "attn"
        if a / "q_proj" % "weight" is not None:
            q, k, v = (dense(a / n, h).unflatten(-1, (4, -1)).transpose(1, 2) for n in ("q_proj", "k_proj", "v_proj"))
            seen = torch_f().scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + dense(a / "o_proj", seen.transpose(1, 2).flatten(2))
        return torch_f().cross_entropy(dense(p / "head", h).flatten(0, 1), y.flatten())

    return loss


LOSSES = {
    "lstm": sequence("LSTM"),
    "gru": sequence("GRU"),
    "lstm-lm": recurrent_lm("LSTM"),
    "gru-lm": recurrent_lm("GRU"),
    "mlp": mlp,
    "resnet": resnet,
    "convnet": convnet,
    "gpt2": lambda p, x, y: gpt(p, x, y, 4),
    "llama": lambda p, x, y: gpt(p, x, y, 4, kv_heads=2, rotary=True, gate="swiglu"),
    "encoder": encoder,
}

if __name__ == "__main__":
    sys.exit(main())
